"""Wrong usage: status 2 (1 where a file is to blame) and a line that names the value and what is allowed."""
import os
import string
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, records, run

TRAIN = [
    (["--no-such-option"], ["unrecognized option '--no-such-option'"]),
    (["word"], ['telegrad: "word" is not an option: only options are allowed here; see telegrad train --help']),
    (["--", "--word"], ['telegrad: "--word" is not an option: only options are allowed here']),
    (["method=dgc"], ['telegrad: "method=dgc" is not an option: did you mean \'--method\'? ']),
    (["--steps"], ["telegrad: option '--steps' has no value: allowed: --steps N; see telegrad train --help"]),
    (["--resume", "--steps", "3"], ["option '--resume' has no value: allowed: --resume DIR"]),
    (["--rule", "--workers=2"], ["option '--rule' has no value: allowed: --rule PATTERN=METHOD"]),
    (["--no-eval=yes"], ["telegrad: option '--no-eval' takes no value, but has \"yes\""]),
    (["--st", "5"], ["telegrad: option '--st' is ambiguous: it may be one of '--strategy', '--steps'"]),
    (["--li", "5mbit"], ["option '--li' is ambiguous: it may be one of", "'--link'", "'--link-of'", "'--listen'"]),
    (["--s", "1"], ["option '--s' is ambiguous: it may be one of", "'--steps'", "'--seed'"]),
    (["--server", "2"], ['--server "2": allowed: tcp://HOST:PORT of telegrad serve; or did you mean --servers 2']),
    (["--method", "topk", "--strategy", "ssgd", "--method=dgc"], ["--method is given twice: topk and dgc"]),
    (["--workers", "2", "--work", "2"], ["--workers is given twice: 2 and 2"]),
    (["--workers", "0"], ['--workers "0"', "allowed: 1 to 4096, or with --clock virtual --sim-only to 1000000"]),
    (["--workers", "-1"], ['--workers "-1"', "allowed: 1 to 4096"]),
    (["--workers", "2x"], ['--workers "2x"', "allowed: 1 to 4096"]),
    (["--workers", "1,batch=3"], ["--workers", "1,batch=3", "allowed: 1 to 4096"]),
    (["--workers", ""], ["--workers", "no value"]),
    (["--batch", "0"], ["--batch 0: allowed: whole numbers from 1 to 1000000"]),
    (["--steps", "0"], ["--steps 0: allowed: whole numbers from 1 to 1000000000000"]),
    (["--log-every", "0"], ["--log-every 0: allowed: whole numbers from 1 to "]),
    (["--save-every", "0"], ["--save-every 0: allowed: whole numbers from 1 to "]),
    (["--seed", "-1"], ["--seed -1: allowed: whole numbers from 0 to 9223372036854775807"]),
    (["--seed", "99999999999999999999"], ["allowed: whole numbers from 0 to 9223372036854775807"]),
    (["--timeout", "0"], ["--timeout 0: allowed: 0.001 to 1000000 seconds, as a number of seconds or a time such as 500ms"]),
    (["--timeout", "soon"], ["--timeout soon: allowed: ", "a number of seconds or a time such as 500ms"]),
    (["--driver", "car"], ['--driver "car"', "allowed: auto, thread, inline"]),
    (["--overlap", "some"], ['--overlap "some"', "allowed: backward, full, none"]),
    (["--fusion", "0"], ['--fusion "0"', "allowed: auto, lags, or 1 to 4096M bytes"]),
    (["--fusion", "5000M"], ['--fusion "5000M"', "allowed: auto, lags, or 1 to 4096M bytes"]),
    (["--fusion", "-1"], ['--fusion "-1"', "e.g. 500000, 64K, 4M"]),
    (["--nodes", "0"], ["--nodes 0: allowed: auto, or whole numbers from 1 to 4096"]),
    (["--nodes", "some"], ["--nodes", "some"]),
    (["--nodes", "auto", "--workers", "2"], ["--nodes auto requires mpirun", "--nodes N"]),
    (["--workers", "5", "--servers", "1", "--server-mode", "sum:combine=krum,f=2"], ["combine=krum,f=2 with 5 ranks: allowed: f=0..1"]),
    (["--workers", "5", "--servers", "1", "--server-mode", "sum:combine=krum"], ["combine=krum requires f"]),
    (["--servers", "1", "--server-mode", "sum:combine=best"], ["combine=best: allowed: mean, median, trimmed, krum, clipped"]),
    (["--servers", "1", "--server-mode", "aysnc"], ['--server-mode "aysnc": did you mean "async"? allowed: sum, sync, async']),
    (["--servers", "1", "--server-mode", "sync:combine=median"], ["--server-mode sync:combine=median requires --strategy server"]),
    (["--servers", "1", "--server-mode", "dist_sync"], ["--server-mode sync requires --strategy server"]),
    (["--servers", "1", "--strategy", "server", "--server-mode", "sum:combine=median"],
     ["servers that sum do not keep parameters: allowed: sync, async"]),
    (["--servers", "1", "--strategy", "server", "--server-mode", "async:combine=median"], ["use staleness=0, or sync"]),
    (["--server", "tcp://127.0.0.1:4242", "--insecure", "--anew", "--init", "w"], ["--anew and --init cannot be combined"]),
    (["--server-deadline", "2s"], ["--server-deadline 2 requires --servers N"]),
    (["--workers", "4", "--nodes", "2", "--servers", "1", "--strategy", "server", "--server-deadline", "2s"],
     ["--server-deadline and --nodes cannot be combined"]),
    (["--workers", "4", "--nodes", "2", "--servers", "1", "--strategy", "server", "--server-mode", "async", "--clock", "virtual", "--tau", "1ms"],
     ["--nodes with --clock virtual and --server-mode async"]),
    (["--workers", "4", "--nodes", "2", "--servers", "1", "--server-mode", "sum:combine=median"],
     ["nodes with mode", "sum:combine=median", "allowed: combine=mean"]),
    (["--servers", "1", "--server-deadline", "2s"], ["--server-deadline 2 requires --strategy server and --server-mode sync; this one is sum"]),
    (["--servers", "1", "--strategy", "server", "--server-deadline", "2s", "--save", "x"], ["--server-deadline cannot be combined with --save"]),
    (["--servers", "1", "--strategy", "server", "--server-mode", "async", "--save", "x"], ["requires --save-every N"]),
    (["--servers", "1", "--strategy", "server", "--server-mode", "async", "--clock", "virtual", "--tau", "1ms", "--resume", "x"],
     ["--save and --resume with --clock virtual and --server-mode async"]),
    (["--servers", "1", "--strategy", "server", "--server-mode", "async", "--server-deadline", "2s"], ["requires --strategy server and", "async"]),
    (["--servers", "1", "--strategy", "server", "--server-deadline", "1min"], ["--server-deadline 60: allowed: less than 0.8 of --timeout, 60"]),
    (["--fusion", "4Mbit"], ['--fusion "4Mbit"', "e.g. 500000, 64K, 4MiB (of 1024), 4MB (of 1000)"]),
    (["--fusion", "4Mb"], ['--fusion "4Mb"', "4MB (of 1000); B is a byte"]),
    (["--rule", "*.bias=topk=0.1"], ['a value without its key: did you mean "topk:density=0.1"?']),
    (["--log-every", "5"], ["--log-every 5 requires --out FILE, which receives the records"]),
    (["--fusion", "0.3K"], ['--fusion "0.3K"', "allowed: auto, lags, or 1 to 4096M bytes"]),
    (["--fusion", "99999999999999999999"], ['--fusion "9999', "or 1 to 4096M bytes"]),
    (["--method", "magic"], ['unknown method "magic"', "allowed: ", "dense", "dgc"]),
    (["--method", "topk:size=1"], ['unknown key "size"', "allowed: density"]),
    (["--method", "topk:density=0"], ["density=0", "allowed: 0 < density <= 1"]),
    (["--method", "topk:density=2"], ["density=2", "allowed: 0 < density <= 1"]),
    (["--method", "dgc:density"], ['key "density"', "no value"]),
    (["--strategy", "none"], ['unknown strategy "none"', "allowed: ssgd"]),
    (["--strategy", "cd:k=-1"], ["k=-1", "allowed: 0 <= k"]),
    (["--optimizer", "sgd:lr=fast"], ["lr=fast", "not a finite decimal number"]),
    (["--lr", "0.1", "--optimizer", "adam:lr=0.2"], ["--lr 0.1 and --optimizer adam:lr=0.2", "both give a rate", "give only one"]),
    (["--optimizer", "sgd:momentum=0.5,lr=0.2", "--lr", "0.1"], ["both give a rate"]),
    (["--lr", "fast"], ["--lr fast", "not a finite decimal number"]),
    (["--lr", "-1"], ["--lr -1", "lr=-1: allowed: "]),
    (["--batch", "\x01"], ["--batch ", "allowed: whole numbers"]),
    (["--lr", "0.1,momentum=0"], ['--lr "0.1,momentum=0": allowed: a number, with a point for a fraction, as 0.1']),
    (["--lr-schedule", "up"], ['unknown lr-schedule "up"', "allowed: constant"]),
    (["--lr-schedule", "step:at=3ep+2ep"], ["at=3ep+2ep", "2ep is step", "in ascending order"]),
    (["--lr-scale", "cubic"], ['--lr-scale "cubic"', "allowed: none, sqrt, linear"]),
    (["--accumulate", "0"], ["--accumulate 0: allowed: whole numbers from 1 to "]),
    (["--accumulate", "33", *TINY], ["--accumulate 33: allowed: 1 to 32"]),
    (["--optimizer", "adam:beta1=1"], ["beta1=1", "allowed: 0 <= beta1"]),
    (["--optimizer", "adam", "--method", "dgc"], ['method "dgc" accumulates', "use optimizer sgd"]),
    (["--optimizer", "sgd:clip=1", "--method", "dgc"], ["clip=1", 'method "dgc"', "key clip of its own"]),
    (["--optimizer", "adam", "--strategy", "cd:local=sgd", *TINY], ['"cd"', "local=sgd", "use local=preview, or eta_loc"]),
    (["--method", "dgc", "--strategy", "local", *TINY], ['"local:', 'method "dgc', "use a method without momentum"]),
    (["--method", "dense:exchange=none", "--strategy", "eager", "--workers", "2", *TINY], ['"eager:', "exchange=none", "choose another exchange"]),
    (["--model", "vgg"], ['unknown model "vgg"', "allowed: lenet5, mlp"]),
    (["--model", "mlp:hidden=0"], ["hidden=0", "allowed: 1 <= hidden"]),
    (["--link", "fast"], ['--link: link "fast"', "allowed: rates such as 20mbit", "times such as 250us", "after up=, down=, delay= or jitter="]),
    (["--link", "1e30gbit"], ['--link: link "1e30gbit"', "allowed: ", "1 bit/s to 1e18"]),
    (["--link", "100mbit,down=20ms"], ['link "100mbit,down=20ms": "down=20ms": allowed: rates such as 20mbit']),
    (["--link", "100mbit, delay=2 h"], ['" delay=2 h": allowed: times such as 250us']),
    (["--link", "100mbit,delay=0"], ['"delay=0": a number without a unit; allowed: ']),
    (["--link", "100"], ['"100": a number without a unit; allowed: ']),
    (["--link", "100mbit,1gbit"], ['"1gbit" sets the rate a second time: allowed: a rate and a time, e.g. 20mbit,10ms']),
    (["--link", "1mbit,5s", "--timeout", "2", "--workers", "2"],
     ["--link 1mbit,5s: the delay, with its jitter 5 s, is not shorter than --timeout, 2 s", "use a longer --timeout"]),
    (["--link-of", "1=1s,jitter=1s", "--timeout", "2", "--workers", "2"], ["--link-of 1s,jitter=1s: the delay, with its jitter 2 s"]),
    (["--method", "topk=0.01"], ['--method topk=0.01: a value without its key: did you mean "topk:density=0.01"?']),
    (["--method", "topk:1%"], ['did you mean "topk:density=1%"?']),
    (["topk:density=0.01"], ["did you mean '--method topk:density=0.01'? only options"]),
    (["--method", "fp32"], ['--method fp32: there is no "fp32": did you mean "dense"?']),
    (["--method", "f32"], ['there is no "f32": did you mean "dense"?']),
    (["--method", "dgc:warmup=4,sparsity=0.999"], ['dgc has no key "sparsity": did you mean "density" (1 - sparsity)?']),
    (["--method", "powersgd:r=4"], ['powersgd has no key "r": did you mean "rank"?']),
    (["--method", "powersgd:k=4"], ['unknown key "k" of method "powersgd": allowed: rank']),
    (["--lr-schedule", "step:every=2,gamma=0.1"], ['step has no key "gamma": did you mean "factor"?']),
    (["--rank", "1"], ["unrecognized option '--rank': the rank with --listen is rank 0, and numbers the others; see telegrad train --help"]),
    (["--hosts", "a,b"], ["unrecognized option '--hosts': start each rank on its machine: use mpirun, or --listen at rank 0 and --join"]),
    (["--local_rank=0"], ["unrecognized option '--local_rank=0': torchrun does not connect the ranks: use mpirun, or --listen"]),
    (["--version"], ["unrecognized option '--version': telegrad --version prints it; see telegrad train --help"]),
    (["--device", "cuda"], ["unrecognized option '--device': telegrad trains on CPUs; "]),
    (["--strategy", "cd=5"], ['did you mean "cd:k=5"?']),
    (["--shard", "label:classes=11", "--workers", "2", *TINY], ["--shard label:classes=11: the data have 10 classes: allowed: 1 to 10"]),
    (["--link", "5ms,20ms"], ['"20ms" sets the delay a second time: allowed: a rate and a time']),
    (["--link-of", "7=20ms"], ["--link-of 7=20ms: allowed: ranks 0 to 0"]),
    (["--lr", "1e-400"], ["lr=1e-400: too close to 0 for a number of 64 bits; allowed: 0 <= lr <= "]),
    (["--lr", "+0.01"], ["lr=+0.01: a number has no plus sign; allowed: 0 <= lr <= "]),
    (["--optimizer", "adam:"], ['optimizer "adam": a key is missing after the colon or a comma: allowed: key=value,key=value']),
    (["--link-of", "0=1e30gbit"], ['--link-of 0=...: link "1e30gbit"', "allowed: "]),
    (["--data", "/etc/passwd"], ["/etc/passwd", "as text:/etc/passwd)"]),
    (["--data", "pets"], ["pets", "allowed: mnist, fashion-mnist, glyphs, cifar10, text, shakespeare, words"]),
    (["--holdout", "1000000", *TINY], ["--holdout 1000000: allowed: 0 to"]),
    (["--batch", "100000", *TINY[:2]], ["--batch 100000: allowed: 1 to"]),
    (["--fault", "1"], ['--fault "1"', "allowed: RANK=SPEC"]),
    (["--fault", "0=fault:drop=2"], ["drop=2", "allowed: 0 <= drop <= 1"]),
    (["--fault", "1=die"], ["--fault 1=die: unknown fault", "allowed: fault"]),
    (["--workers", "2", "--fault", "2=fault:drop=0.1"], ["--fault 2=", "allowed: ranks 0 to 1"]),
    (["--steps", "5", "--epochs", "3"], ["--steps 5 with --epochs 3", "give only one of them"]),
    (["--epochs", "0"], ["--epochs 0: allowed: whole numbers from 1 to 1000000000"]),
    (["--epochs", "0.5"], ["--epochs 0.5: allowed: whole numbers from 1 to 1000000000"]),
    (["--save-every", "5"], ["--save-every 5 requires --save DIR", "requires --save DIR"]),
    (["--method", "dgc:momentum=0.9", "--optimizer", "sgd:lr=0.1,momentum=0.5"], ["0.9", "0.5", "momentum"]),
]

NEAR = [
    (["tarin"], '"train"'),
    (["help", "reprot"], '"report"'),
    (["bench", "code"], '"codec"'),
    (["train", "--methd", "dgc"], "'--method'"),
    (["train", "--no-evl"], "'--no-eval'"),
    (["train", "--batchsize", "64"], "'--batch'"),
    (["train", "--batch-size=64"], "'--batch'"),
    (["train", "batchsize=64"], "'--batch'"),
    (["train", "-n", "4"], "'--workers'"),
    (["train", "-np", "4"], "'--workers'"),
    (["train", "--learning-rate", "0.1"], "'--lr'"),
    (["train", "--momentum", "0.9"], "'--optimizer sgd:momentum=M'"),
    (["train", "--world_size", "2"], "'--workers'"),
    (["train", "--batch_size", "2"], "'--batch'"),
    (["train", "--nproc-per-node=2"], "'--workers'"),
    (["train", "--backend", "gloo"], "'--transport'"),
    (["train", "--rate", "10mbit"], "'--link'"),
    (["train", "--arch", "lenet5"], "'--model'"),
    (["train", "--codec", "topk"], "'--method'"),
    (["train", "--log", "x"], "'--out FILE' or '--log-every N'"),
    (["train", "--nproc", "4"], "'--workers'"),
    (["train", "--threads", "2"], "'--codec-threads N' (for compression) or '--workers N'"),
    (["bench", "train", "--threads", "2"], "'--workers'"),
    (["train", "-b", "32"], "'--batch'"),
    (["train", "-e", "3"], "'--epochs'"),
    (["train", "--checkpoint", "ck"], "'--save'"),
    (["eval", "--checkpoint", "ck"], "'--resume'"),
    (["compare", "method=topk"], "'--run method=topk'"),
    (["eval", "."], "'--resume .'"),
    (["eval", "/etc/passwd"], "'--weights /etc/passwd'"),
    (["compare", "--worker=2", "--rnu", "method=dense"], "'--run'"),
    (["eval", "--wieghts", "x"], "'--weights'"),
    (["bench", "codec", "--treads", "2"], "'--threads'"),
    (["report", "x", "--tilte", "x"], "'--title'"),
    (["train", "--method", "dcg"], '"dgc"'),
    (["train", "--method", "topk:densty=0.1"], '"density"'),
    (["train", "--method", "topk:exchange=allgahter"], '"allgather"'),
    (["train", "--strategy", "dilco"], '"diloco"'),
    (["train", "--optimizer", "adm"], '"adam"'),
    (["train", "--lr-schedule", "cosin"], '"cosine"'),
    (["train", "--model", "resnet"], '"resnet20"'),
    (["train", "--data", "mnits"], '"mnist"'),
    (["train", "--overlap", "bakward"], '"backward"'),
    (["train", "--driver", "tread"], '"thread"'),
    (["compare", "--run", "stratgy=cd"], '"strategy"'),
]

COMPARE = [
    ([], ["nothing to compare", "give --run RUN or --spec FILE"]),
    (["--run", "colour=red"], ["--run 1", 'unknown option "colour"', "allowed: name, method, rule, strategy"]),
    (["--run", "method=topk,strategy=cd"], ["--run 1: method=topk,strategy=cd: allowed: semicolons between keys, key=value;key=value"]),
    (["--run", "method=dense", "--dense-timed", "3"], ["--dense-timed 3 requires --link"]),
    (["--run", "method"], ["--run 1", '"method"', "allowed: key=value"]),
    (["--run", "topk"], ['--run 1: "topk": did you mean "method=topk"? allowed: key=value']),
    (["dense", "topk"], ["\"dense\" is not an option: did you mean '--run method=dense'? "]),
    (["--run", "seed=3"], ['--run 1: "seed" is the same for all runs: give --seed outside --run']),
    (["--run", "save=x"], ["--run 1", 'unknown option "save"']),
    (["--run", "method=dense", "--run", "method=magic"], ["--run 2", 'unknown method "magic"']),
    (["--run", "name=a", "--run", "name=a;method=topk"], ["--run 2", 'name "a"', "--run 1"]),
    (["--run", "name=a;name=b"], ["--run 1", "allowed: one name"]),
    (["--method", "dense", "--run", "method=dgc;steps=3;method=topk"], ["--run 1", "method=topk: the key is given twice"]),
    (["--dense-timed", "0", "--run", "name=a"], ['--dense-timed "0"', "allowed: 1 to"]),
    (["--save", "x", "--run", "name=a"], ["unrecognized option '--save': train has it, and compare does not; see telegrad compare --help"]),
    (["--steps", "5", "--epochs", "3", "--run", "name=a"], ["--steps 5 with --epochs 3", "give only one of them"]),
    (["--epochs", "0", "--run", "name=a"], ["--epochs 0: allowed: whole numbers from 1"]),
]

SPEC = [
    ("just words\n", [":1:", "allowed: name: key=value"]),
    ("\n# fine\n--batch 0\n", [":3:", "--batch 0: allowed: whole numbers from 1 to 1000000"]),
    ("--batch 3\n--rule a=f32\n--rule b=f32\n--batch 4\n", [":4:", "--batch is given twice"]),
    ("--save x\n", [":1:", 'unknown option "save"']),
    ("--no-eval 1\n", [":1:", "takes no value"]),
    ("--batch\n", [":1:", "--batch has no value"]),
    ("a: method=dense\nb: method=magic\n", [":2:", 'unknown method "magic"']),
    ("a: method=dense\na: method=topk\n", [":2:", 'name "a"']),
    ("--steps 5\n--epochs 3\na: method=dense\n", ["--steps 5 with --epochs 3"]),
    ("# nothing\n", ["the file has no run: allowed: a RUN per line"]),
]


class Usage(CliTest):
    def test_command(self):
        allowed = "allowed: train, compare, tune, eval, methods, strategies, exchanges, codecs, feedbacks, optimizers, lr-schedules, models, data"
        self.refused(2, ["no command", allowed])
        self.refused(2, ['unknown command "walk"', allowed], "walk")
        self.refused(2, ['"topk:density=0.1": it is a method: train --method topk:density=0.1 trains with it, methods topk describes it'],
                     "topk:density=0.1")
        self.refused(2, ['unknown command "cd": it is a strategy: train --strategy cd'], "cd")

    def test_train(self):
        for args, words in TRAIN:
            with self.subTest(args=args):
                self.refused(2, words, "train", *args)

    def test_compare(self):
        for args, words in COMPARE:
            with self.subTest(args=args):
                self.refused(2, words, "compare", *args)

    def test_spec_file(self):
        for text, words in SPEC:
            with self.subTest(text=text):
                with open(self.path("runs"), "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused(2, words, "compare", "--spec", self.path("runs"))
        self.refused(1, ["--spec", "cannot be opened"], "compare", "--spec", self.path("none"))

    def test_methods(self):
        self.refused(2, ['unknown method "magic": allowed: dense, fp16', ", dgc, ", "; see telegrad methods"], "methods", "magic")
        self.refused(2, ['unknown method "tok": did you mean "topk"? allowed: dense, '], "methods", "tok")
        self.refused(2, ['unknown model "sg": did you mean "sgd", an optimizer (telegrad optimizers sgd)? allowed: lenet5, '],
                     "models", "sg")
        for command in "methods", "models":
            self.refused(2, ["--json and --markdown cannot be combined"], command, "--json", "--markdown")

    def test_what_would_be_passed_over(self):
        self.refused(2, ["--input requires a model"], "models", "--input", "28x28x1:10")
        for option, value in ("--shard", "iid"), ("--holdout", "5"), ("--workers", "3"), ("--seed", "3"):
            self.refused(2, [f"{option} requires a data set: telegrad data SPEC {option}"], "data", option, value)
        self.refused(2, ["--workers requires --shard SPEC"], "data", "glyphs:train=20,test=5", "--workers", "3")
        for option in "-q", "-v", "--json":
            self.refused(2, [f'"{option}" stands before the command: write telegrad COMMAND [OPTION]'], option, "methods")
        self.refused(2, ["--weights has no value"], "eval", "--weights", "")
        for both in ["-q", "-v"], ["-vq"], ["--verbose", "--quiet"]:
            self.refused(2, ["--quiet and --verbose cannot be combined"], "train", *TINY, "--steps", "1", *both)
        self.refused(2, ['"dgc:density=0.1": allowed: a name without keys: telegrad methods dgc'], "methods", "dgc:density=0.1")

    def test_no_short_options(self):
        """But -h, -q and -v, which all commands have: each would be a second name that nobody can take away again."""
        for command in (["train"], ["compare"], ["tune"], ["eval"], ["methods"], ["models"], ["data"], ["bench", "codec"],
                        ["bench", "train"]):
            for letter in set(string.ascii_lowercase) - set("hqv"):
                with self.subTest(command=command, letter=letter):
                    self.refused(2, [f"unrecognized option '-{letter}'"], *command, "-" + letter)

    def test_near_misses(self):
        """The message says what was probably meant."""
        for args, meant in NEAR:
            with self.subTest(args=args):
                self.refused(2, [f"did you mean {meant}? ", "allowed: " if meant[0] == '"' else "see telegrad"], *args)
        self.assertNotIn("did you mean", self.refused(2, ["allowed: "], "walk"))

    def test_near_misses_of_options_without_a_command(self):
        for word, meant in (("--versoin", "--version"), ("--hlep", "--help"), ("hlep", "help")):
            kind = "option" if word[0] == "-" else "command"
            self.refused(2, [f'unknown {kind} "{word}": did you mean "{meant}"? '], word)
        self.assertEqual(self.ok("help", "help"), self.ok("help"))
        self.refused(2, ['"extra": help takes a command and nothing else: telegrad help train'], "help", "train", "extra")
        self.refused(2, ['"dgc": help takes a command and nothing else: telegrad help bench'], "help", "bench", "exchange", "dgc")

    def test_a_time_without_a_unit_that_is_known(self):
        self.refused(2, ['--timeout 5m: allowed: 0.001 to 1000000 seconds, as a number of seconds or a time such as 500ms, 60s, 2min'],
                     "train", "--timeout", "5m", "--steps", "1")

    def test_a_folder_of_data_that_is_not_there(self):
        done = run("train", "--model", "mlp:hidden=8", "--workers", "2", "--steps", "2", "--no-eval",
                   TELEGRAD_DATA=self.path("nowhere"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nowhere: there is no such folder", done.stderr)
        done = run("data", TELEGRAD_DATA=self.path("nowhere"))
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"telegrad: warning: TELEGRAD_DATA={self.path('nowhere')}: there is no such folder\n"))
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        for args in ["data", "--json"], ["data", "glyphs:train=20,test=5"]:
            self.assertIn("/file: this is not a folder\n", run(*args, TELEGRAD_DATA=self.path("file")).stderr)

    def test_of_another_kind(self):
        self.refused(2, ['unknown method "cd", which is a strategy: allowed: dense'], "train", "--method", "cd:k=5")
        self.refused(2, ['unknown strategy "sgd", which is an optimizer'], "train", "--strategy", "sgd")

    def test_values_with_units(self):
        """Each is taken: what fails is what comes after."""
        for args in (["--link", "100Mbps"], ["--link", "1Gbit"], ["--link", "1 Gbit/s, 20 ms"], ["--link", "12.5MB/s"],
                     ["--fusion", "4MB"], ["--fusion", "4MiB"], ["--fusion", "64 kb"], ["--method", "topk:density=1%"],
                     ["--timeout", "30s"], ["--timeout", "500 ms"], ["--timeout", "2min"], ["--link-of", "0=5 Mbit/s"],
                     ["--clock", "virtual", "--tau", "20 ms"]):
            with self.subTest(args=args):
                self.refused(1, ["--out"], "train", *args, "--out", self.path("none/x"))
        self.refused(2, ['"100MBPS": BPS may be bits or bytes: write bps for bits, Bps for bytes; allowed: ', "12.5MB/s with a capital B"],
                     "train", "--link", "100MBPS")
        self.refused(2, ['"100Mb": a number of bits, not a rate: did you mean "100Mb/s"? allowed: '], "train", "--link", "100Mb,5ms")
        self.refused(2, ['"1.5 MiB": a number of bytes, not a rate: did you mean "1.5 MiB/s"? '], "train", "--link", "1.5 MiB")
        self.refused(2, ["--timeout 3min 5s: allowed: ", "a number of seconds or a time such as 500ms"], "train", "--timeout", "3min 5s")
        plan = [self.ok("train", "--dry-run", "--json", "--method", "topk:density=" + d) for d in ("1%", "0.01")]
        self.assertEqual(*plan)

    def test_lr(self):
        """Goes into the optimizer, whichever is given first; the default one keeps its momentum."""
        def optimizer(*args):
            self.ok("train", *TINY, "--model", "mlp:hidden=8", "--steps", "1", "--no-eval", "--out", self.path("r"), *args)
            return records(self.path("r"))[0]["optimizer"]
        self.assertEqual(optimizer("--lr", "0.02"), optimizer("--optimizer", "sgd:lr=0.02,momentum=0.9"))
        self.assertEqual(optimizer("--lr", "2%"), optimizer("--optimizer", "sgd:lr=0.02,momentum=0.9"))
        self.assertEqual(optimizer("--lr", "0.02", "--optimizer", "adam"), optimizer("--optimizer", "adam:lr=0.02"))
        self.assertEqual(optimizer("--optimizer", "adam:beta1=0.5", "--lr", "0.02"),
                         optimizer("--optimizer", "adam:beta1=0.5,lr=0.02"))
        self.assertEqual(optimizer("--optimizer", "adam:lr=0.02", "--lr", "0.020"), optimizer("--optimizer", "adam:lr=0.02"))
        self.ok("compare", *TINY, "--model", "mlp:hidden=8", "--steps", "1", "--no-eval", "--out", self.path("r"), "--lr", "0.02",
                "--run", "name=a", "--run", "name=b;lr=0.03", "--run", "name=c;optimizer=adam")
        rates = [r["optimizer"].split(",")[0] for r in records(self.path("r")) if r["type"] == "start"]
        self.assertEqual(rates, ["sgd:lr=0.02", "sgd:lr=0.03", "adam:lr=0.02"])

    def test_files(self):
        none = self.path("none")
        self.refused(1, [none], "train", "--data", "mnist:" + none)
        self.refused(1, ["--out", "cannot open", none], "train", *TINY, "--out", none + "/run.jsonl")
        self.refused(1, ["--out", "is a directory"], "train", *TINY, "--out", self.folder)
        self.refused(1, ["--trace", "cannot write in"], "train", *TINY, "--trace", none + "/t.json")
        self.refused(1, [none], "train", *TINY, "--steps", "1", "--resume", none)
        self.assertEqual(os.listdir(self.folder), [])

    def test_one_file_for_two(self):
        """The records of a run would be lost with its trace in their place, or what is read with them."""
        here, folder = self.path("x"), self.path("y")
        os.mkdir(folder)
        with open(self.path("old"), "w", encoding="utf-8") as file:
            file.write("a: method=dense\n")
        os.symlink(self.path("old"), self.path("link"))
        base = ["train", *TINY, "--steps", "1"]
        for more in (["--out", here, "--trace", here], ["--out", here, "--trace", folder + "/../x"], ["--out", here, "--save", here + "/"],
                     ["--out", folder, "--save", self.folder + "/./y"], ["--trace", here, "--dump-gradients", here],
                     ["--out", self.path("old"), "--trace", self.path("link")], ["--out", self.path("link"), "--init", self.path("old")],
                     ["--clock", "virtual", "--tau", self.path("old"), "--out", self.path("old")]):
            with self.subTest(more=more):
                self.refused(2, ["of --", "choose another"], *base, *more)
        old = self.path("old")
        self.refused(2, ["--out", "--spec"], "compare", *TINY, "--steps", "1", "--out", old, "--spec", old)
        self.refused(2, ["--logits", "--weights"], "eval", "--weights", old, "--logits", self.path("link"))
        with open(old, encoding="utf-8") as file:
            self.assertEqual(file.read(), "a: method=dense\n")
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "old", "y"])
        self.ok(*base, "--out", "/dev/null", "--trace", "/dev/null", "--save", folder, "--no-eval")

    def test_failure_leaves_no_records(self):
        out = self.path("run.jsonl")
        self.refused(1, [self.folder, "train-labels"], "train", "--data", "mnist:" + self.folder, "--out", out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_said_twice_or_not_at_all(self):
        for name in "a,method=topk", "a method=topk":
            self.refused(2, ["semicolons between keys"], "compare", *TINY, "--steps", "1", "--run", "name=" + name)
        twins = run("compare", *TINY, "--steps", "1", "--no-eval", "--run", "name=a", "--run", "name=b", "--run", "name=2-bit, k=5;method=2bit")
        self.assertEqual((twins.returncode, twins.stderr.count('runs "a" and "b" have the same settings')), (0, 1), twins.stderr)
        twins = run("compare", *TINY, "--steps", "1", "--no-eval", "--method", "topk", "--run", "name=a;lr=0.1;rule=*.bias=f32", "--run", "name=b;method=topk",
                    "--run", "name=c;optimizer=sgd:lr=0.1,momentum=0.9;rule=*.bias=f32;method=topk")
        self.assertEqual((twins.returncode, twins.stderr.count('runs "a" and "c" have the same settings')), (0, 1), twins.stderr)
        self.refused(2, ["a run without settings"], "compare", *TINY, "--steps", "1", "--run", "")
        self.refused(2, ['--link-of "1=2mbit": rank 1 has a link already'], "train", *TINY, "--workers", "2", "--steps", "1",
                     "--link-of", "1=1mbit", "--link-of", "1=2mbit")
        self.refused(2, ["--measure and --tau cannot be combined"], "advise", "--link", "20mbit", "--measure", "--tau", "20ms")

    def test_transport(self):
        self.assertIn("1 (inproc)", self.ok("train", *TINY, "--transport", "inproc", "--steps", "1"))
        self.refused(2, ['--transport "tpc"', "allowed: inproc (threads"], "train", *TINY, "--transport", "tpc")
        if mpi_tool.AVAILABLE:
            self.refused(2, ["--transport mpi requires mpirun"], "train", *TINY, "--transport", "mpi")

    def test_as_a_rank_of_mpi(self):
        rank = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
        self.refused(2, ["--workers 2", "mpirun"], "train", "--workers", "2", **rank)
        rank = {"SLURM_STEP_NUM_TASKS": "2", "PMIX_RANK": "0"}  # srun --mpi=pmix
        self.refused(2, ["--workers 2", "srun -n N"], "train", "--workers", "2", **rank)
        if mpi_tool.AVAILABLE:
            self.refused(2, ["allowed: mpi; or start it without mpirun, with --workers N"], "train", *TINY, "--transport", "inproc", **rank)

    def test_as_the_only_task(self):
        """srun --pty bash: one task, which may have threads and meet others, whatever Slurm's MPI is."""
        short = [*TINY, "--model", "mlp:hidden=8", "--steps", "2", "--no-eval"]
        for task in ({"SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, {"PMI_SIZE": "1", "PMI_RANK": "0"}):
            self.assertIn("2 (inproc)", self.ok("train", *short, "--workers", "2", **task))
            self.ok("train", *short[:-1], "--clock", "virtual", "--tau", "5ms", "--sim-only", **task)
            self.ok("compare", *short, "--workers", "2", "--run", "method=dense", **task)
            self.ok("bench", "exchange", "dense", "--elements", "1000", "--workers", "2", "--seconds", "0.01", **task)
            self.ok("advise", "--link", "100mbit,20ms", "--model", "mlp:hidden=8", "--tau", "5ms", **task)
            self.refused(2, ["--listen requires --ranks N"], "train", *short, "--listen", "tcp://127.0.0.1:0", **task)

    def test_what_one_process_does(self):
        """Under mpirun all ranks would write the same file, or measure beside each other: refused. Lists are rank 0's."""
        first, second = ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": rank} for rank in "01")
        page = ["report", "r.jsonl", "-o", self.path("r.html")]
        for args in (page, ["eval", "--weights", "w"], ["bench", "codec"], ["bench", "train"], ["bench", "strategy"]):
            name = " ".join(args[:1 + (args[0] == "bench")])
            self.refused(2, [f"telegrad: {name} runs in one process: start it without mpirun"], *args, **first)
        self.assertNotIn("mpirun", self.refused(1, ["r.jsonl"], *page, OMPI_COMM_WORLD_SIZE="1", OMPI_COMM_WORLD_RANK="0"))
        for args in (["methods"], ["models"], ["data"], ["--help"], ["help", "train"], ["report", "-h"], ["--version"], ["-V"]):
            self.assertTrue(self.ok(*args, **first))
            self.assertEqual(self.ok(*args, **second), "")

    def test_as_one_of_many_tasks(self):
        """srun without --mpi: each task would train alone, and write the same files."""
        task = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"}
        words = ["one of 4 tasks", "--mpi=pmix", "--workers N"]
        save = ["--save", self.path("ck")]
        self.refused(2, words, "train", *TINY, "--steps", "1", *save, **task)
        self.refused(2, words, "compare", *TINY, "--steps", "1", "--run", "name=a", **task)
        self.refused(2, words, "bench", "exchange", "--elements", "1000", **task)
        self.assertEqual(os.listdir(self.folder), [])
        self.ok("train", *TINY, "--dry-run", "--workers", "1", **task)  # a job of its own, as asked
        self.ok("train", *TINY, "--dry-run", **{**task, "SLURM_STEP_NUM_TASKS": "1"})

    def test_as_one_of_many_processes(self):
        """torchrun and Horovod connect only the processes that use their own libraries."""
        torch = {"WORLD_SIZE": "4", "RANK": "1"}
        save = ["--save", self.path("ck")]
        for name, more in (("torchrun", {**torch, "MASTER_ADDR": "a"}), ("torchrun", {**torch, "TORCHELASTIC_RUN_ID": "7"}),
                           ("Horovod", {"HOROVOD_SIZE": "4", "HOROVOD_RANK": "0"})):
            words = [f"started by {name} as one of 4 processes that do not know each other: use mpirun -n 4, or --listen", "--workers N"]
            self.refused(2, words, "train", *TINY, "--steps", "1", *save, **more)
            self.refused(2, words, "compare", *TINY, "--steps", "1", "--run", "name=a", **more)
            self.refused(2, words, "bench", "exchange", "--elements", "1000", **more)
            self.ok("train", *TINY, "--dry-run", "--workers", "1", **more)
        self.assertEqual(os.listdir(self.folder), [])
        for fine in torch, {**torch, "WORLD_SIZE": "1", "MASTER_ADDR": "a"}, {"HOROVOD_SIZE": "1", "HOROVOD_RANK": "0"}:
            self.ok("train", *TINY, "--dry-run", **fine)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_started_by_another_mpi(self):
        self.refused(2, ["rank 1 of 4", "MPI which telegrad was built with"], "train", *TINY, "--steps", "1",
                     "--save", self.path("ck"), PMI_SIZE="4", PMI_RANK="1")
        self.assertEqual(os.listdir(self.folder), [])


class Names(CliTest):
    def test_endings_of_compressed_files(self):
        for option in "--out", "--trace":
            self.refused(2, [f'{option} "z.gz": the file is not compressed: allowed: a name without .gz'], "train", *TINY, option, "z.gz",
                         cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_folder_of_data_that_is_missing(self):
        self.refused(1, ["folder nodir: No such file or directory"], "train", "--data", "mnist:nodir", cwd=self.folder)

    def test_version_takes_no_argument(self):
        self.refused(2, ['--version takes no argument, but has "extra"'], "--version", "extra")

    def test_one_file_by_two_names(self):
        """Also by a link to a file that does not exist yet."""
        os.symlink("a", self.path("b"))
        self.refused(2, ["--out \"a\": this is the path of --trace"], "train", *TINY, "--out", "a", "--trace", "b", cwd=self.folder)

    def test_times_from_a_pipe(self):
        """Which would be waited for, whatever signal comes."""
        os.mkfifo(self.path("f"))
        self.refused(1, ["--tau f: cannot be read: it is a FIFO, not a regular file"], "train", *TINY, "--clock", "virtual", "--tau", "f",
                     cwd=self.folder, timeout=20)


if __name__ == "__main__":
    unittest.main()
