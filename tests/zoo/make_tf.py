"""Exports Keras networks through tf2onnx and Keras' own exporter, and writes down what TensorFlow makes of them.

usage: make_tf.py FOLDER [--only TEXT]    (needs tensorflow, keras, tf2onnx, onnx, onnxruntime)

The folders are make.py's, and test.py judges them: five updates of Keras' SGD with momentum, the network called with training=False.
"""
import argparse
import io
import json
import os
import shutil
import signal
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout

os.environ.update(KERAS_BACKEND='tensorflow', TF_CPP_MIN_LOG_LEVEL='3', TF_ENABLE_ONEDNN_OPTS='0', CUDA_VISIBLE_DEVICES='')
warnings.filterwarnings('ignore')
import numpy as np
import onnx
from onnx import numpy_helper

SAMPLES, BATCH, STEPS, SECONDS = 8, 4, 5, 400


def networks():
    import keras
    import tensorflow as tf
    from keras import layers as l
    seq = lambda *parts: keras.Sequential(list(parts))
    rnd = lambda *shape: lambda n, r: r.standard_normal((n, *shape)).astype('f4')
    ids = lambda length, high: lambda n, r: r.integers(1, high, (n, length)).astype('i4')

    def functional(shape, build):
        x = l.Input(shape)
        return keras.Model(x, build(x))

    def skip(x):
        h = l.Conv2D(8, 3, padding='same', activation='relu')(x)
        g = l.BatchNormalization()(l.Conv2D(8, 3, padding='same', use_bias=False)(h))
        return l.Dense(4)(l.GlobalAveragePooling2D()(l.Activation('relu')(l.add([h, g]))))

    def transformer(x):
        h = l.Embedding(30, 16)(x)
        h = l.LayerNormalization()(h + l.MultiHeadAttention(4, 4)(h, h))
        h = l.LayerNormalization()(h + l.Dense(16)(l.Activation(lambda v: keras.activations.gelu(v, approximate=True))(l.Dense(32)(h))))
        return l.Dense(3)(l.GlobalAveragePooling1D()(h))

    def attention(x):
        q, v = l.Dense(8)(x), l.Dense(8)(x)
        return l.Dense(3)(l.Flatten()(l.Attention()([q, v])))

    def additive(x):
        q, v = l.Dense(8)(x), l.Dense(8)(x)
        return l.Dense(3)(l.Flatten()(l.AdditiveAttention()([q, v])))

    def squeeze(x):
        h = l.Conv2D(8, 3, padding='same', activation='swish')(x)
        s = l.Dense(8, 'sigmoid')(l.Dense(4, 'relu')(l.GlobalAveragePooling2D(keepdims=True)(h)))
        return l.Dense(4)(l.GlobalMaxPooling2D()(h * s))

    def unet(x):
        a = l.Conv2D(8, 3, padding='same', activation='relu')(x)
        b = l.Conv2D(12, 3, padding='same', activation='relu')(l.MaxPooling2D()(a))
        c = l.concatenate([l.UpSampling2D(interpolation='bilinear')(b), l.Conv2DTranspose(8, 2, strides=2)(b), a])
        return l.Conv2D(2, 1)(c)

    def loss_inside(x):
        y = l.Dense(3)(l.Dense(8, 'tanh')(x))
        return keras.ops.mean(keras.ops.square(y - 0.5), axis=-1, keepdims=True)

    app = lambda name, size, **more: (lambda: getattr(keras.applications, name)(weights=None, include_top=True, input_shape=(size, size, 3), classes=4, classifier_activation=None, **more), rnd(size, size, 3))
    rows = {
        'mlp': (lambda: seq(l.Input((6,)), l.Dense(8, 'relu'), l.Dropout(.3), l.Dense(3)), rnd(6)),
        'softmax': (lambda: seq(l.Input((6,)), l.Dense(8, 'elu'), l.Dense(3, 'softmax')), rnd(6)),
        'cnn': (lambda: seq(l.Input((16, 16, 3)), l.Conv2D(8, 3, use_bias=False), l.BatchNormalization(), l.ReLU(), l.MaxPooling2D(), l.Dropout(.2), l.Conv2D(8, 3, activation='relu'), l.Flatten(), l.Dense(4)), rnd(16, 16, 3)),
        'skip': (lambda: functional((12, 12, 3), skip), rnd(12, 12, 3)),
        'separable': (lambda: seq(l.Input((16, 16, 3)), l.SeparableConv2D(8, 3, padding='same', activation='relu'), l.DepthwiseConv2D(3, strides=2, padding='same'), l.LayerNormalization(), l.GlobalAveragePooling2D(), l.Dense(4)), rnd(16, 16, 3)),
        'lstm': (lambda: seq(l.Input((6, 4)), l.LSTM(8, return_sequences=True), l.LSTM(6), l.Dense(3)), rnd(6, 4)),
        'gru': (lambda: seq(l.Input((6, 4)), l.GRU(8), l.Dense(3)), rnd(6, 4)),
        'simple_rnn': (lambda: seq(l.Input((6, 4)), l.SimpleRNN(8), l.Dense(3)), rnd(6, 4)),
        'bidirectional': (lambda: seq(l.Input((6, 4)), l.Bidirectional(l.LSTM(5, return_sequences=True)), l.Bidirectional(l.GRU(4)), l.Dense(3)), rnd(6, 4)),
        'text': (lambda: seq(l.Input((10,), dtype='int32'), l.Embedding(30, 8), l.GlobalAveragePooling1D(), l.Dense(8, 'relu'), l.Dense(1, 'sigmoid')), ids(10, 30)),
        'text_lstm': (lambda: seq(l.Input((10,), dtype='int32'), l.Embedding(30, 8), l.Bidirectional(l.LSTM(6)), l.Dense(3)), ids(10, 30)),
        'text_masked': (lambda: seq(l.Input((10,), dtype='int32'), l.Embedding(30, 8, mask_zero=True), l.LSTM(6), l.Dense(3)), lambda n, r: r.integers(1, 30, (n, 10)).astype('i4') * (np.arange(10) < 10 - np.arange(n)[:, None] % 4).astype('i4')),
        'transformer': (lambda: functional((10,), transformer), ids(10, 30)),
        'attention': (lambda: functional((6, 5), attention), rnd(6, 5)),
        'additive': (lambda: functional((6, 5), additive), rnd(6, 5)),
        'conv1d': (lambda: seq(l.Input((12, 4)), l.Conv1D(8, 3, padding='causal', activation='gelu'), l.GlobalMaxPooling1D(), l.Dense(3)), rnd(12, 4)),
        'conv3d': (lambda: seq(l.Input((6, 8, 8, 2)), l.Conv3D(4, 3, activation='relu'), l.AveragePooling3D(2), l.Flatten(), l.Dense(3)), rnd(6, 8, 8, 2)),
        'squeeze': (lambda: functional((12, 12, 3), squeeze), rnd(12, 12, 3)),
        'unet': (lambda: functional((12, 12, 3), unet), rnd(12, 12, 3)),
        'norms': (lambda: seq(l.Input((8, 8, 3)), l.Conv2D(8, 3), l.GroupNormalization(4), l.PReLU(shared_axes=[1, 2]), l.LayerNormalization(), l.Flatten(), l.UnitNormalization(), l.Dense(3)), rnd(8, 8, 3)),
        'activations': (lambda: seq(l.Input((6,)), l.Dense(8, 'selu'), l.Dense(8, 'softplus'), l.LeakyReLU(), l.Dense(8, 'mish'), l.Dense(8, 'hard_sigmoid'), l.Dense(8, 'softsign'), l.Dense(3)), rnd(6)),
        'convlstm': (lambda: seq(l.Input((3, 6, 6, 2)), l.ConvLSTM2D(4, 3), l.Flatten(), l.Dense(3)), rnd(3, 6, 6, 2)),
        'loss_inside': (lambda: functional((5,), loss_inside), rnd(5)),
        'mobilenet': app('MobileNet', 32, alpha=.25), 'mobilenetv2': app('MobileNetV2', 32, alpha=.35), 'mobilenetv3': app('MobileNetV3Small', 32, alpha=.75, minimalistic=True), 'resnet50': app('ResNet50', 32), 'efficientnet': app('EfficientNetB0', 32), 'convnext': app('ConvNeXtTiny', 32),
    }
    return rows


def prepare(model):
    """As make.py's: values of their own, and a BatchNorm that adds its bias only; its scale and biases before it are held."""
    import keras
    r, held = np.random.default_rng(7), set()
    layers = [m for m in model._flatten_layers() if not getattr(m, '_layers', None)]
    norms = [m for m in layers if isinstance(m, keras.layers.BatchNormalization)]
    for v in model.trainable_variables:
        a = np.array(v)
        v.assign(a + (r.standard_normal(a.shape) * (0.1 * a.std() if a.size > 1 and a.std() > 1e-6 else 0.02)).astype('f4'))
    for m in norms:
        one = np.float32(1 - m.epsilon)
        while np.float32(one + np.float32(m.epsilon)) != 1:
            one = np.nextafter(one, np.float32(2 if one + np.float32(m.epsilon) < 1 else 0))
        m.moving_mean.assign(np.zeros(m.moving_mean.shape, 'f4'))
        m.moving_variance.assign(np.full(m.moving_variance.shape, one, 'f4'))
        if m.gamma is not None:
            m.gamma.assign(np.ones(m.gamma.shape, 'f4'))
            held.add(id(m.gamma))
    if norms:
        for m in layers:
            if 'conv' in type(m).__name__.lower() and getattr(m, 'bias', None) is not None:
                m.bias.assign(np.zeros(m.bias.shape, 'f4'))
                held.add(id(m.bias))
    return held


def train(model, live, x, target, lr, doubled):
    import tensorflow as tf
    moved, losses = [tf.zeros_like(v) for v in live], []
    for step in range(STEPS):
        at = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x[at], training=False) - target[at]))
        grads = [tf.convert_to_tensor(g) if g is not None else tf.zeros_like(v) for g, v in zip(tape.gradient(loss, [v.value for v in live]), live)]
        if lr is None:
            return float(f'{0.03 * float(loss) / max(sum(float(tf.reduce_sum(tf.square(tf.cast(g, tf.float64)))) for g in grads), 1e-12):.3g}')
        grads = [g * twice for g, twice in zip(grads, doubled)]
        moved = [0.9 * m + g for m, g in zip(moved, grads)]
        for v, m in zip(live, moved):
            v.assign(v - lr * m)
        losses.append(float(loss))
    return losses


def write(name, how, path):
    import keras
    import tensorflow as tf
    from values import kinds
    tf.random.set_seed(0)
    keras.utils.set_random_seed(0)
    began = time.time()
    make, data = networks()[name]
    r = np.random.default_rng(5)
    file = os.path.join(path, 'model.onnx')
    facts = {'family': 'keras', 'name': name, 'export': how}
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        model = make()
        x = data(SAMPLES, r)
        model(x[:1])
        held = prepare(model)
        if how == 'keras':
            model.export(file, format='onnx', verbose=False)
        else:
            import tf2onnx
            f = tf.function(lambda v: model(v, training=False), input_signature=[tf.TensorSpec([None, *x.shape[1:]], x.dtype, name='x')])
            tf2onnx.convert.from_function(f, f.input_signature, opset=int(how[2:]), output_path=file)
    proto = onnx.load(file)
    live = [v for v in model.trainable_variables if id(v) not in held]
    facts['tensors'], lost = kinds(proto, {v.path: np.array(v) for v in live}, {v.path: np.array(v) for v in model.trainable_variables if id(v) in held},
                                   [np.array(v) for v in model.non_trainable_variables if 'float' in str(v.dtype)])
    facts['lost'] = lost
    live = [v for v in live if v.path not in lost]
    facts['output'], y = proto.graph.output[0].name, np.array(model(x[:BATCH], training=False))
    apart = np.concatenate([np.array(model(x[i:i + 1], training=False)) for i in range(BATCH)])
    facts['mixes'] = float(np.abs(y - apart).max() / max(1, np.abs(y).max()))
    target = (r.standard_normal((SAMPLES, *y.shape[1:])) * y.std() + y.mean()).astype('f4')
    given = proto.graph.input[0].name
    if proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
        x = x.astype('f4') # Keras takes ids for floats where nobody says what they are
    arrays = {given: x, 'target_' + facts['output']: target, 'expected_batch': y, 'expected_apart': apart}
    try:
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        arrays['expected_ort'] = ort.InferenceSession(file, providers=['CPUExecutionProvider']).run([facts['output']], {given: x[:1]})[0]
    except Exception as e:
        facts['ort'] = str(e)[:300]
    two = any(n.op_type == 'LSTM' for n in proto.graph.node) # ONNX's LSTM has two biases where Keras has one: their sum moves twice as far
    doubled = [2 if two and 'lstm_cell' in v.path and v.path.endswith('bias') else 1 for v in live]
    facts['lr'] = train(model, live, x, target, None, doubled)
    facts['losses'] = train(model, live, x, target, facts['lr'], doubled)
    arrays['expected_after'] = np.array(model(x[:1], training=False))
    facts['seconds'] = round(time.time() - began, 1)
    np.savez(os.path.join(path, 'data.npz'), **arrays)
    json.dump(facts, open(os.path.join(path, 'facts.json'), 'w'), indent=0)
    return facts


def one(name, how, stem):
    shutil.rmtree(stem + '.tmp', ignore_errors=True)
    os.makedirs(stem + '.tmp')
    signal.alarm(SECONDS)
    try:
        f = write(name, how, stem + '.tmp')
        os.rename(stem + '.tmp', stem)
        print(f"made {os.path.basename(stem)} {f['seconds']} s, losses {f['losses'][0]:.4g} to {f['losses'][-1]:.4g}", flush=True)
    except BaseException as e:
        where = traceback.extract_tb(e.__traceback__)[-1]
        open(stem + '.refused', 'w').write(f'{type(e).__name__}: {str(e)[:400]} ({where.filename}:{where.lineno})')
        print(f'no export {os.path.basename(stem)}: {type(e).__name__}: {str(e)[:160]!r} ({os.path.basename(where.filename)}:{where.lineno})', flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('folder')
    p.add_argument('--only', default='')
    a = p.parse_args()
    opsets = ['tf13', 'tf15', 'tf17', 'tf18']
    for i, name in enumerate(networks()):
        for how in (opsets[i % 4], 'keras'):
            stem = os.path.join(a.folder, f'keras-{name}-{how}')
            if a.only in stem and not os.path.exists(stem) and not os.path.exists(stem + '.refused'):
                pid = os.fork() # before TensorFlow has computed anything
                if not pid:
                    one(name, how, stem)
                    os._exit(0)
                os.waitpid(pid, 0)


if __name__ == '__main__':
    main()
