"""Makes bombs/: files of a few hundred bytes that ask for more time or memory than there is.

    tests/python tests/faults/make_bombs.py"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

here = pathlib.Path(__file__).parent / "bombs"


def f(name, shape=None):
    return h.make_tensor_value_info(name, T.FLOAT, shape)


def ints(name, v):
    return nh.from_array(np.array(v, np.int64), name)


YES = nh.from_array(np.array(True), "t")


def save(name, nodes, inputs, outputs=("y",), tensors=()):
    g = h.make_graph(nodes, "g", inputs, [f(o) for o in outputs], list(tensors))
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 18)], ir_version=9)
    (here / f"{name}.onnx").write_bytes(m.SerializeToString())


def body(nodes, carried, made, scanned=(), prefix=""):
    """A Loop's body: iteration, condition, carried values; the condition comes back as it is."""
    p = prefix
    return h.make_graph(nodes, "b", [h.make_tensor_value_info(p + "i", T.INT64, []), h.make_tensor_value_info(p + "c", T.BOOL, []), f(carried)],
                        [h.make_tensor_value_info(p + "c", T.BOOL, []), f(made)] + [f(s) for s in scanned])


def loop(body, x, *out):
    return h.make_node("Loop", ["n", "t", x], list(out), name="loop", body=body)


relu = h.make_node("Relu", ["a"], ["ao"])
inner = body([relu], "a", "ao")
outer = body([loop(inner, "p", "po")], "p", "po", prefix="q")
save("nested-loops", [loop(outer, "x", "y")], [f("x", [4])], tensors=[ints("n", 10000), YES])
deep = inner
for k in range(6):
    deep = body([loop(deep, f"p{k}", f"po{k}")], f"p{k}", f"po{k}", prefix=f"q{k}")
save("deep-loops", [loop(deep, "x", "y")], [f("x", [4])], tensors=[ints("n", 1000), YES])
save("empty-loop", [loop(body([], "a", "a"), "x", "y")], [f("x", [4])], tensors=[ints("n", 2**62), YES])
save("loop-scan-output", [loop(body([relu, h.make_node("Relu", ["a"], ["s"])], "a", "ao", ["s"]), "x", "y", "z")], [f("x", [4])], ["y", "z"],
     [ints("n", 10**6), YES])
save("loop-constants", [h.make_node("ConstantOfShape", ["s"], ["k"]), loop(body([h.make_node("Add", ["a", "a"], ["ao"])], "a", "ao"), "k", "z"),
                        h.make_node("Add", ["x", "z"], ["y"])], [f("x", [1])], tensors=[ints("s", [8000000]), ints("n", 10**6), YES])
scan = h.make_graph([h.make_node("Add", ["a", "e"], ["ao"]), h.make_node("Relu", ["ao"], ["s"])], "b", [f("a"), f("e")], [f("ao"), f("s")])
save("scan", [h.make_node("Scan", ["v", "x"], ["y", "z"], name="loop", num_scan_inputs=1, body=scan)], [f("v", []), f("x", [2**31 - 1])], ["y", "z"])
small = [nh.from_array(np.zeros((1, 4, 1), np.float32), k) for k in "wr"]
save("lstm", [h.make_node("LSTM", ["x", "w", "r"], ["y"], name="n", hidden_size=1, clip=1.0)], [f("x", [10**6, 1, 1])], tensors=small)
save("trilu", [h.make_node("Trilu", ["x"], ["y"], name="n")], [f("x", [2**31 - 1, 3])])
save("eyelike", [h.make_node("EyeLike", ["x"], ["y"], name="n")], [f("x", [10**5, 10**5])])
save("range", [h.make_node("Range", ["a", "b", "c"], ["r"], name="n"), h.make_node("Cast", ["r"], ["k"], to=1), h.make_node("Add", ["x", "k"], ["y"])],
     [f("x", [1])], tensors=[ints("a", 0), ints("b", 2**40), ints("c", 1)])
save("onehot", [h.make_node("Cast", ["x"], ["i"], to=7), h.make_node("OneHot", ["i", "d", "v"], ["y"], name="n")], [f("x", [1])],
     tensors=[ints("d", 2**40), nh.from_array(np.array([0, 1], np.float32), "v")])
save("resize", [h.make_node("Resize", ["x", "", "s"], ["y"], name="n", mode="linear")], [f("x", [1, 1, 4, 4])],
     tensors=[nh.from_array(np.array([1, 1, 1, 1e9], np.float32), "s")])
save("reversesequence", [h.make_node("ReverseSequence", ["x", "l"], ["y"], name="n")], [f("x", [2**31 - 1, 1, 3]),
                                                                                    h.make_tensor_value_info("l", T.INT64, [1])])
save("pad-reflect", [h.make_node("Pad", ["x", "p"], ["y"], name="n", mode="reflect")], [f("x", [4])], tensors=[ints("p", [0, 2**40])])
save("pad-wrap", [h.make_node("Pad", ["x", "p"], ["y"], name="n", mode="wrap")], [f("x", [4, 4])], tensors=[ints("p", [0, 0, 2**22, 2**22])])
save("expand", [h.make_node("Expand", ["x", "s"], ["y"], name="n")], [f("x", [1])], tensors=[ints("s", [2**20, 2**20])])
ones = h.make_node("ConstantOfShape", ["s"], ["c0"], value=nh.from_array(np.array([1], np.float32)))
save("constant-products", [ones] + [h.make_node("MatMul", [f"c{k}", "c0"], [f"c{k + 1}"]) for k in range(20)] +
     [h.make_node("Add", ["x", "c20"], ["y"], name="n")], [f("x", [1])], tensors=[ints("s", [4000, 4000])])
np.savez(here / "one.npz", x=np.ones(1, np.float32))
