"""Graphs that tell batches apart: each mixes the samples of its batch, or has them where nobody looks.

A function gives the nodes, with x as input and y as output; `batch` is the file's own.  What y is for a larger batch is
what ONNX Runtime says for one batch of the file's own size after the other."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(11)


def tensor(name, values, kind=np.float32):
    return numpy_helper.from_array(np.asarray(values, kind), name)


def random(name, *shape):
    return tensor(name, rng.standard_normal(shape))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def ints(name, *values):
    return tensor(name, values, np.int64)


# name: (batch of the file, shape of a sample, shape of the output, nodes, initializers)
W = lambda *shape: random('w', *shape)
graphs = {
    'softmax_over_batch': (1, [6], [1, 3], [node('MatMul', 'x w', 'a'), node('Softmax', 'a', 'b', axis=0), node('Add', 'a b', 'y')], [W(6, 3)]),
    'softmax_over_two': (2, [6], [2, 3], [node('MatMul', 'x w', 'a'), node('Softmax', 'a', 'b', axis=0), node('Mul', 'a b', 'y')], [W(6, 3)]),
    'sums_over_batch': (2, [6], [2, 3], [node('MatMul', 'x w', 'a'), node('CumSum', 'a i', 'y')], [W(6, 3), tensor('i', 0, np.int64)]),
    'mean_of_all': (1, [6], [1, 3], [node('MatMul', 'x w', 'a'), node('ReduceMean', 'a', 'm', keepdims=0), node('Sub', 'a m', 'y')], [W(6, 3)]),
    'time_first': (1, [5, 4], [1, 3], [node('Transpose', 'x', 't', perm=[1, 0, 2]), node('Reshape', 't s', 'f'), node('MatMul', 'f w', 'a'),
                   node('Softmax', 'a', 'b', axis=0), node('ReduceSum', 'b i', 'c', keepdims=1), node('ReduceMax', 'a i', 'd', keepdims=1),
                   node('Add', 'c d', 'y')], [ints('s', 5, 4), W(4, 3), ints('i', 0)]),
    'batch_away': (1, [5, 4], [1, 3], [node('Squeeze', 'x i', 't'), node('MatMul', 't w', 'a'), node('Softmax', 'a', 'b', axis=0),
                   node('Mul', 'a b', 'c'), node('ReduceMean', 'c i', 'd', keepdims=0), node('Unsqueeze', 'd i', 'y')], [ints('i', 0), W(4, 3)]),
    'flat': (1, [2, 3], [1, 3], [node('Flatten', 'x', 'f', axis=0), node('Gather', 'f g', 'h', axis=1), node('MatMul', 'h w', 'y')],
             [ints('g', 5, 0, 3), W(3, 3)]),
    'first_of_batch': (1, [6], [1, 3], [node('Gather', 'x z', 'f', axis=0), node('Gemm', 'o w f2', 'g'), node('Reshape', 'f s', 'f1'),
                       node('MatMul', 'f1 w', 'm'), node('Add', 'g m', 'y')],
                       [tensor('z', 0, np.int64), random('o', 1, 6), W(6, 3), random('f2', 3), ints('s', 1, 6)]),
    'scatter_tuples': (1, [3], [1, 4], [node('MatMul', 'x w', 'u1'), node('Reshape', 'u1 s', 'u'), node('ScatterND', 'd i u', 'y')],
                       [W(3, 2), ints('s', 2), tensor('d', np.zeros((1, 4))), tensor('i', [[0, 3], [0, 1]], np.int64)]),
    'gram': (2, [3], [3, 3], [node('MatMul', 'x w', 'a'), node('Transpose', 'a', 't'), node('MatMul', 't a', 'y')], [W(3, 3)]),
    'gram_letters': (2, [3], [3, 3], [node('MatMul', 'x w', 'a'), node('Einsum', 'a a', 'y', equation='ni,nj->ij')], [W(3, 3)]),
    'padded': (1, [4], [2, 6], [node('MatMul', 'x w', 'a'), node('Pad', 'a p', 'y')], [W(4, 4), ints('p', 1, 1, 0, 1)]),
    'tiled': (1, [4], [2, 8], [node('MatMul', 'x w', 'a'), node('Tile', 'a r', 'y')], [W(4, 4), ints('r', 2, 2)]),
    'joined': (1, [4], [3, 4], [node('MatMul', 'x w', 'a'), node('Concat', 'a x c', 'y', axis=0)], [W(4, 4), random('c', 1, 4)]),
    'split': (2, [4], [2, 4], [node('MatMul', 'x w', 'm'), node('Split', 'm', 'a b', axis=0, num_outputs=2), node('Mul', 'a b', 'c'),
              node('Concat', 'c a', 'y', axis=0)], [W(4, 4)]),
    'mean_variance': (1, [2, 3, 3], [1, 2, 3, 3], [node('MatMul', 'x w', 'a'), node('MeanVarianceNormalization', 'a', 'y')], [W(3, 3)]),
    'kept_rows': (2, [4], [1, 4], [node('MatMul', 'x w', 'm'), node('Compress', 'm k', 'y', axis=0)], [W(4, 4), tensor('k', [False, True], np.bool_)]),
    'own_product': (1, [4], [1, 4, 4], [node('Unsqueeze', 'x j', 'a'), node('Unsqueeze', 'x i', 'b'), node('MatMul', 'a b', 'c'), node('Mul', 'c w', 'y')],
                    [ints('i', 1), ints('j', 2), W(4, 4)]),
    'triangle': (1, [4, 4], [1, 4, 4], [node('Squeeze', 'x i', 'a'), node('Trilu', 'a', 'b', upper=0), node('Mul', 'b w', 'c'), node('Unsqueeze', 'c i', 'y')],
                 [ints('i', 0), W(4, 4)]),
    'places': (1, [2, 4, 4], [1, 2, 8, 8], [node('MatMul', 'x w', 'a'), node('Resize', 'a   s', 'y', mode='linear')], [W(4, 4), ints('s', 1, 2, 8, 8)]),
    'grid': (1, [2, 4, 4], [1, 2, 3, 3], [node('MatMul', 'x w', 'a'), node('Slice', 'x z s i', 'b'), node('Transpose', 'b', 'c', perm=[0, 2, 3, 1]), node('GridSample', 'a c', 'y', align_corners=1)],
             [W(4, 4), ints('z', 0, 0), ints('s', 3, 3), ints('i', 2, 3)]),
    'grid_of_two': (2, [2, 4, 4], [2, 2, 3, 3], [node('MatMul', 'x w', 'a'), node('GridSample', 'a g', 'y')], [W(4, 4), tensor('g', rng.uniform(-1, 1, (2, 3, 3, 2)))]),
    'offsets': (1, [2, 4, 4], [1, 2, 3, 3], [node('Conv', 'x v', 'o'), node('DeformConv', 'x w o', 'y', kernel_shape=[2, 2])], [tensor('v', 0.3 * rng.standard_normal((8, 2, 2, 2))), W(2, 2, 2, 2)]),
    'columns': (1, [4, 4], [1, 1, 3, 3], [node('MatMul', 'x w', 'a'), node('Col2Im', 'a s k', 'y')], [W(4, 4), ints('s', 3, 3), ints('k', 2, 2)]),
    'determinants': (2, [3, 3], [2], [node('MatMul', 'x w', 'a'), node('Det', 'a', 'y')], [W(3, 3)]),
    'reversed': (2, [4, 3], [2, 4, 3], [node('MatMul', 'x w', 'a'), node('Transpose', 'a', 't', perm=[1, 0, 2]), node('ReverseSequence', 't l', 'r'), node('Transpose', 'r', 'y', perm=[1, 0, 2])], [W(3, 3), ints('l', 2, 3)]),
    'regions': (2, [2, 5, 5], [2, 2, 2, 2], [node('MatMul', 'x w', 'a'), node('RoiAlign', 'a b k', 'y', output_height=2, output_width=2, sampling_ratio=2)],
                [W(5, 5), tensor('b', [[0, 0, 4, 3], [1, 1, 3, 4]]), ints('k', 1, 0)]),
    'attention': (1, [4, 6], [1, 4, 6], [node('MatMul', 'x w', 'q'), node('ReduceSum', 'x i', 'r', keepdims=0), node('Unsqueeze', 'r j', 'r1'), node('Greater', 'r1 z', 'm'),
                  node('Attention', 'q x x m', 'y', q_num_heads=2, kv_num_heads=2)], [W(6, 6), ints('i', 2), tensor('z', [[-4], [-3], [-5], [-4]]), ints('j', 1, 2)]),
    'attention_table': (2, [4, 6], [2, 4, 6], [node('MatMul', 'x w', 'q'), node('Attention', 'q x x m', 'y', q_num_heads=2, kv_num_heads=2)], [W(6, 6), random('m', 2, 1, 4, 4)]),
    'rotary': (2, [2, 3, 4], [2, 2, 3, 4], [node('MatMul', 'x w', 'q'), node('RotaryEmbedding', 'q c s p', 'y')], [W(4, 4), random('c', 5, 2), random('s', 5, 2), tensor('p', [[0, 1, 2], [2, 3, 4]], np.int64)]),
    'spectrum': (2, [6, 4], [2, 6, 4], [node('MatMul', 'x w', 'a'), node('Unsqueeze', 'a e', 'b'), node('DFT', 'b - i', 'c'), node('DFT', 'c', 'd'), node('Gather', 'd z', 'y', axis=3)],
                 [tensor('w', 0.2 * rng.standard_normal((4, 4))), ints('e', 3), tensor('i', -3, np.int64), tensor('z', 0, np.int64)]),
    'spectrum_alone': (1, [6, 4], [1, 6, 4], [node('MatMul', 'x w', 'a'), node('Squeeze', 'a j', 's'), node('Unsqueeze', 's e', 'b'), node('DFT', 'b - i', 'c'), node('Gather', 'c z', 'd', axis=2), node('Unsqueeze', 'd j', 'y')],
                       [W(4, 4), ints('e', 2), ints('j', 0), tensor('i', 0, np.int64), tensor('z', 1, np.int64)]),
    'frames': (1, [16], [1, 3, 5, 2], [node('MatMul', 'x w', 'a'), node('Unsqueeze', 'a e', 'b'), node('STFT', 'b t v', 'y')], [W(16, 16), ints('e', 2), tensor('t', 4, np.int64), random('v', 8)]),
    'own_bias': (2, [3], [2, 3], [node('MatMul', 'x w', 'a'), node('Add', 'a b', 'y')], [W(3, 3), random('b', 2, 3)]),
    'rows': (4, [2, 4], [4, 3], [node('Reshape', 'x s', 'a'), node('Gemm', 'a w', 'y')], [ints('s', -1, 8), W(8, 3)]),
    'as_many_steps': (4, [4, 3], [4, 4, 3], [node('Transpose', 'x', 't', perm=[1, 0, 2]), node('Reshape', 't s', 'f'), node('MatMul', 'f w', 'a'), node('Reshape', 'a r', 'b'),
                      node('Transpose', 'b', 'y', perm=[1, 0, 2])], [ints('s', 16, 3), W(3, 3), ints('r', 4, 4, 3)]),
    'as_many_heads': (4, [4, 4], [4, 4, 4], [node('MatMul', 'x w', 'a'), node('Reshape', 'a s', 'b'), node('Transpose', 'b', 'c', perm=[3, 1, 0, 2, 4]), node('Gather', 'c i', 'q', axis=0),
                      node('Gather', 'c j', 'k', axis=0), node('Reshape', 'q h', 'q1'), node('Reshape', 'k h', 'k1'), node('Mul', 'q1 k1', 'm'), node('Reshape', 'm o', 'n'),
                      node('Transpose', 'n', 'y', perm=[1, 0, 2])],
                      [W(4, 8), ints('s', 4, 4, 4, 2, 1), tensor('i', 0, np.int64), tensor('j', 1, np.int64), ints('h', 4, 16, 1), ints('o', 4, 4, 4)]),
    'rows_baked': (4, [2, 4], [8, 3], [node('Reshape', 'x s', 'a'), node('MatMul', 'a w', 'y')], [ints('s', 8, 4), W(4, 3)]),
}


# Those with an operator that mixes the samples of a batch, which is said.  ('kept_rows' and the like choose or add some.)
mixing = {'softmax_over_batch', 'softmax_over_two', 'sums_over_batch', 'mean_of_all', 'gram', 'gram_letters'}

# Those with an operator that has no rule: it runs once for each batch of the file's.
repeated = {'mean_variance'}

# A loss in the graph: name: (nodes, initializers, shape of a sample's target, its type).  The mean over what is counted in the
# whole batch, and a mean that is spelled out.
losses = {
    'loss_ignored': ([node('MatMul', 'x w', 'a'), node('SoftmaxCrossEntropyLoss', 'a t', 'y', ignore_index=2)], [W(6, 3)], [], TensorProto.INT64),
    'loss_sum': ([node('MatMul', 'x w', 'a'), node('LogSoftmax', 'a', 'b'), node('NegativeLogLikelihoodLoss', 'b t', 'y', reduction='sum')], [W(6, 3)],
                 [], TensorProto.INT64),
    'loss_spelled': ([node('MatMul', 'x w', 'a'), node('Sub', 'a t', 'd'), node('Mul', 'd d', 's'), node('ReduceMean', 's', 'y', keepdims=0)], [W(6, 3)], [3],
                     TensorProto.FLOAT),
    'loss_kept': ([node('MatMul', 'x w', 'a'), node('Sub', 'a t', 'd'), node('Abs', 'd', 's'), node('ReduceMean', 's', 'm'), node('Squeeze', 'm i', 'y')],
                  [W(6, 3), ints('i', 1)], [3], TensorProto.FLOAT),
}


def loss_model(name, batch):
    """batch: 1, or 'n' for an open one."""
    nodes, weights, target, kind = losses[name]
    out = [] if name != 'loss_kept' else [1]
    g = helper.make_graph(nodes, name, [helper.make_tensor_value_info('x', TensorProto.FLOAT, [batch, 6]),
                                        helper.make_tensor_value_info('t', kind, [batch, *target])],
                          [helper.make_tensor_value_info('y', TensorProto.FLOAT, out)], weights)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    onnx.checker.check_model(m)
    return m


def opset(name):
    ops = {n.op_type for n in graphs[name][3]}
    return 23 if ops & {'Attention', 'RotaryEmbedding'} else 20 if ops & {'GridSample', 'DeformConv', 'DFT'} else 18


def model(name):
    batch, sample, out, nodes, weights = graphs[name]
    for n in nodes: # 'a   s', 'b - i': inputs left out
        if n.op_type == 'Resize':
            del n.input[:]
            n.input.extend(['a', '', '', 's'])
        for i, given in enumerate(n.input):
            n.input[i] = '' if given == '-' else given
    g = helper.make_graph(nodes, name, [helper.make_tensor_value_info('x', TensorProto.FLOAT, [batch, *sample])],
                          [helper.make_tensor_value_info('y', TensorProto.FLOAT, out)], weights)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid('', opset(name))], ir_version=10)
    onnx.checker.check_model(m)
    return m
