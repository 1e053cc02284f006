"""Train, write, read elsewhere: the trained file in ONNX Runtime and OpenCV, on the real MNIST.

usage: test_roundtrip.py PROGRAM [-v]

A rate of 0 must give back the very file.  The trained one must pass onnx.checker, differ from the
first in its weights alone, and be right on as many of the 10,000 test images (give or take one) in
ONNX Runtime, and in OpenCV's dnn where that is installed, as `onnxtrain eval` says.
"""
import gzip
import os
import re
import subprocess
import sys
import tempfile

from scripts import np, onnx, onnxruntime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENET = f'{ROOT}/models/lenet.onnx'


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')
    return r.stdout


def mnist():
    with gzip.open(f'{ROOT}/models/data/mnist/t10k-images-idx3-ubyte.gz') as f:
        x = np.frombuffer(f.read()[16:], np.uint8).reshape(-1, 1, 28, 28).astype(np.float32) / 255
    with gzip.open(f'{ROOT}/models/data/mnist/t10k-labels-idx1-ubyte.gz') as f:
        return x, np.frombuffer(f.read()[8:], np.uint8)


def without_weights(path):
    m = onnx.load(path)
    for t in m.graph.initializer:
        t.ClearField('raw_data')
    return m.SerializeToString()


def right_in_onnxruntime(path, x, y):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    s = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    name = s.get_inputs()[0].name
    return sum(int((s.run(None, {name: x[i:i + 500]})[0].argmax(1) == y[i:i + 500]).sum()) for i in range(0, len(x), 500))


def right_in_opencv(path, x, y, n=500):
    import cv2
    net = cv2.dnn.readNetFromONNX(path)
    net.setInput(x[:n])
    return int((net.forward().reshape(n, -1).argmax(1) == y[:n]).sum())


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as d:
        train = ['train', LENET, '--data', 'mnist', '--batch-size', '64', '--device', 'cpu']
        call(program, *train, '--steps', '3', '--lr', '0', '-o', f'{d}/same.onnx', '--run-dir', f'{d}/run0')
        same = open(f'{d}/same.onnx', 'rb').read() == open(LENET, 'rb').read()
        assert same, 'a rate of 0 changed the file'
        call(program, *train, '--steps', '250', '-o', f'{d}/out.onnx', '--run-dir', f'{d}/run1')
        out = f'{d}/out.onnx'
        onnx.checker.check_model(onnx.load(out), full_check=True)
        assert without_weights(out) == without_weights(LENET), 'more than weights changed'
        said = call(program, 'eval', out, '--data', 'mnist', '--device', 'cpu')
        ours = float(re.search(r'^accuracy\s+([0-9.]+) %', said, re.M)[1]) / 100
        x, y = mnist()
        theirs = right_in_onnxruntime(out, x, y)
        print(f'onnxtrain eval: {ours * len(y):.0f} right; ONNX Runtime: {theirs} right')
        assert abs(ours * len(y) - theirs) <= 1.001, 'they do not agree'
        assert theirs > 0.9 * len(y), 'it did not learn'
        try:
            n = 500
            cv = right_in_opencv(out, x, y, n)
            ort = right_in_onnxruntime(out, x[:n], y[:n])
            print(f'OpenCV: {cv} of the first {n} right; ONNX Runtime: {ort}')
            assert abs(cv - ort) <= 1
        except ImportError:
            print('OpenCV is not installed: not compared')


main()
