"""ImageDecoder over streams that are no pictures: an empty picture, as the standard asks, and one warning that names the node and why.

usage: test_streams.py PROGRAM
"""
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

STREAMS = {'whole': (b'P5\n4 3\n255\n' + bytes(range(12)), (3, 4, 1), None), 'cut': (b'P5\n4 3\n255\n' + bytes(range(5)), (0, 0, 1), ''),
           'other': (b'hello world', (0, 0, 1), 'is not an image of a supported format')}

with tempfile.TemporaryDirectory() as d:
    for name, (stream, shape, why) in STREAMS.items():
        stream = np.frombuffer(stream, np.uint8)
        for fed in (False, True):
            ends = [h.make_tensor_value_info('x', T.FLOAT, ['n', 4])] + [h.make_tensor_value_info('s', T.UINT8, ['bytes'])] * fed
            nodes = [h.make_node('ImageDecoder', ['s'], ['p'], name='decode', pixel_format='Grayscale'), h.make_node('MatMul', ['x', 'w'], ['y'])]
            tensors = [numpy_helper.from_array(np.ones((4, 2), 'f4'), 'w')] + [numpy_helper.from_array(stream, 's')] * (not fed)
            g = h.make_graph(nodes, 'g', ends, [h.make_tensor_value_info('y', T.FLOAT, ['n', 2]), h.make_tensor_value_info('p', T.UINT8, [None] * 3)], tensors)
            onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 20)], ir_version=10), f'{d}/m.onnx')
            np.savez(f'{d}/d.npz', x=np.ones((8, 4), 'f4'), **({'s': stream} if fed else {}))
            said = call('run', f'{d}/m.onnx', '--data', f'{d}/d.npz', '-o', f'{d}/y.npz').stderr
            check(np.load(f'{d}/y.npz')['p'].shape == shape, f'{name}: the picture has another shape')
            heard = [said]
            if not fed:
                heard.append(call('check', f'{d}/m.onnx').stdout)
            for text in heard:
                check(text.count('decode: ImageDecoder: the stream cannot be decoded; the image is empty') == (why is not None) and (why or '') in text, f'{name}, fed {fed}: {text}')
finish('streams')
