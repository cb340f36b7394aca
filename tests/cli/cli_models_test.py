"""The list of models: each is made for the data of its papers, and its figures add up."""
import json
import math
import pathlib
import re
import unittest
from cli_tool import CliTest, refuse_constant

PARAMETERS = {"lenet5": 431080, "mlp": 109386, "resnet20": 269722, "resnet56": 853018, "resnet110": 1727962,
              "resnet18": 11173962, "vgg11": 9231114, "lstm": 7332078, "gpt": 818048}
# Multiplications of convolutions and dense layers, by hand.
MFLOPS = {"lenet5": 4.586, "mlp": 0.21837, "resnet20": 81.1, "resnet18": 1110.8, "lstm": 510.69, "gpt": 220.36}


class Models(CliTest):
    def models(self, *arguments):
        text = self.ok("models", "--json", *arguments)
        return {m["name"]: m for m in json.loads(text, parse_constant=refuse_constant)["models"]}

    def test_all(self):
        models = self.models()
        self.assertLessEqual(set(PARAMETERS), set(models))
        for name, m in models.items():
            trained = [t for t in m["tensors"] if t["trained"]]
            self.assertEqual(m["parameters"], sum(t["elements"] for t in trained), name)
            self.assertEqual(len({t["name"] for t in m["tensors"]}), len(m["tensors"]), name)
            for t in m["tensors"]:
                self.assertEqual(t["elements"], math.prod(t["shape"]), t)
            self.assertEqual(m["parameters"], PARAMETERS.get(name, m["parameters"]), name)
            if name in MFLOPS:
                self.assertAlmostEqual(m["flops"] / 1e6 / MFLOPS[name], 1, 3, name)

    def test_names_of_tensors(self):
        tensors = {t["name"]: t for t in self.models("resnet20")["resnet20"]["tensors"]}
        self.assertEqual(tensors["layer2.0.conv1.weight"]["shape"], [32, 16, 3, 3])
        self.assertEqual(tensors["layer3.2.bn2.running_var"]["trained"], False)
        self.assertEqual(tensors["fc.weight"]["shape"], [10, 64])
        self.assertIn("layer2.0.downsample.1.bias", self.ok("models", "resnet18"))

    def test_input(self):
        m = self.models("resnet20", "--input", "28x20x1:7")["resnet20"]
        self.assertEqual(m["input"], {"height": 28, "width": 20, "channels": 1, "context": 0, "classes": 7})
        self.assertIsNone(m["data"])
        self.assertEqual(m["tensors"][0]["shape"], [16, 1, 3, 3])

    def test_context_of_the_spec(self):
        m = self.models("gpt:context=64")["gpt"]
        self.assertEqual((m["input"]["context"], m["data"]), (64, "shakespeare"))
        self.assertEqual(m["parameters"], PARAMETERS["gpt"] - 64 * 128)

    def test_default_optimizer(self):
        """Of each model, as train has it."""
        models = self.models()
        self.assertEqual({m["optimizer"].split(":")[0] for m in models.values() if m["input"]["context"] == 0}, {"sgd"})
        self.assertEqual([models[name]["optimizer"] for name in ("gpt", "lstm")], ["adamw:lr=0.001,weight_decay=0.1", "adam:lr=0.002"])
        for name in "lenet5", "gpt", "lstm":
            self.assertIn("default optimizer: " + models[name]["optimizer"] + "\n", self.ok("models", name))

    def test_text(self):
        listed = self.ok("models")
        for name in PARAMETERS:
            self.assertRegex(listed, rf"(?m)^{name} +\S")
        text = self.ok("models", "vgg11:bn=no")
        self.assertIn("vgg11:bn=no (cifar10, 32 x 32 x 3, 10 classes)", text)
        self.assertIn("9,225,610 parameters in 18 tensors", text)
        self.assertNotIn("statistic", text)

    def test_refused(self):
        self.refused(2, ["lenet6", "lenet5"], "models", "lenet6")
        self.refused(2, ["bn=maybe"], "models", "vgg11:bn=maybe")
        self.refused(2, ["vgg11", "28 x 28", "32 x 32"], "models", "vgg11", "--input", "28x28x1:10")
        self.refused(2, ["images", "tokens"], "models", "resnet20", "--input", "35:100")
        for bad in ("", "32", "32x32:10", "32x32x3", "0x32x3:10", "32x32x3:0", "-1:5", "32x32x3:10x", "99999999999999999999:2"):
            self.refused(2, ["--input", "32x32x3:10"], "models", "--input", bad)

    def test_document_has_the_table(self):
        document = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models.md"
        table = re.search(r"^<!-- models -->\n(.*?)^<!-- end -->$", document.read_text(encoding="utf-8"), re.S | re.M)
        self.assertEqual(table[1], self.ok("models", "--markdown"), "run scripts/models-table")


if __name__ == "__main__":
    unittest.main()
