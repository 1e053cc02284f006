"""Keras, in tiny configurations."""
import os

from cases import Case, normal


def cases():
    os.environ['KERAS_BACKEND'] = 'torch'
    import keras
    from keras import layers as l
    seq = lambda *parts: keras.Sequential(list(parts))
    rows = {'dense': lambda: seq(l.Input((6,)), l.Dense(8, 'relu'), l.Dense(3)), 'conv': lambda: seq(l.Input((16, 16, 3)), l.Conv2D(8, 3, use_bias=False), l.BatchNormalization(), l.ReLU(), l.MaxPooling2D(), l.Flatten(), l.Dropout(.2), l.Dense(4)),
            'separable': lambda: seq(l.Input((16, 16, 3)), l.SeparableConv2D(8, 3, padding='same'), l.LayerNormalization(), l.GlobalAveragePooling2D(), l.Dense(4)), 'lstm': lambda: seq(l.Input((6, 4)), l.LSTM(8), l.Dense(3)), 'gru': lambda: seq(l.Input((6, 4)), l.GRU(8), l.Dense(3)),
            'conv1d': lambda: seq(l.Input((12, 4)), l.Conv1D(8, 3, activation='gelu'), l.GlobalMaxPooling1D(), l.Dense(3))}
    for name, make in rows.items():
        def build(make=make):
            m = make()
            return m

        def export(module, data, how, path):
            module(data['x'][:1])
            module.export(path, format='onnx', verbose=False)
            return module
        shape = {'dense': (6,), 'lstm': (6, 4), 'gru': (6, 4), 'conv1d': (12, 4)}.get(name, (16, 16, 3))
        yield Case('keras', name, build, {'x': normal(*shape)}, ('own',), export)
