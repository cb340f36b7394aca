"""telegrad.torch.ddp with two levels: nodes of ranks that average by Gloo. Status 77: no PyTorch here."""
import signal
import sys
import unittest
import unittest.mock

import ranks
import torch_jobs


class Nodes(unittest.TestCase):
    def test_two_nodes_are_two_ranks(self):
        """Whose gradients are the means of the nodes: the same bits, and the same steps are skipped."""
        nodes = jobs.run_alike("ddp_node_rank.py", 4, "alike", timeout=150)
        self.assertEqual(nodes, jobs.run_alike("ddp_node_rank.py", 2, "alike", timeout=150))
        self.assertEqual(nodes.count("alike_"), 7)

    def test_many_nodes(self):
        """Seven nodes, whose means of equal numbers are not exact, and one of them with another place."""
        import telegrad
        import torch.distributed
        from telegrad._node import Node
        for wrong in (None, 5):
            def check(net, wrong=wrong):
                node = Node.__new__(Node)
                node._group, node.size, node.place, node.first = None, 4, 2 if net.rank == wrong else 3, 0
                node.check(net, 28, [])
            with unittest.mock.patch.object(torch.distributed, "all_reduce", lambda *_, **__: None):
                if wrong is None:
                    ranks.in_threads(7, check)
                else:
                    self.assertRaises(telegrad.MismatchError, ranks.in_threads, 7, check)

    def test_cases(self):
        output = jobs.run_alike("ddp_node_rank.py", 4, "all", timeout=150)
        for case in ("modes", "unused", "resumed", "other_ranks", "unfinished", "raised", "without_elements", "join", "warned", "world", "refused",
                     "half"):
            self.assertIn(f"case_{case} ", output)

    def test_killed_rank(self):
        """The first rank of a node and another one, in a backward pass. All others end with an error that says who has failed."""
        for dead in (2, 3):
            ended = jobs.run("ddp_node_rank.py", 4, f"killed {dead}")
            for rank, (status, output, errors) in enumerate(ended):
                self.assertEqual(status, -signal.SIGKILL if rank == dead else 0, output + errors)
            self.assertIn("PeerError rank 1", ended[0][1])
            self.assertIn("the exchange of global rank 0, the first of this node, has failed", ended[1][1])
            self.assertIn("node: its process group has failed", ended[5 - dead][1])


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
