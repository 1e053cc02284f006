"""scikit-learn, in tiny configurations."""
import copy

import numpy as np
import torch
import torch.nn as nn

from cases import Case, normal


class Net(nn.Module):
    """What a scikit-learn model computes, its coefficients as parameters."""
    def __init__(self, layers, act, last, scaler=None):
        super().__init__()
        self.w = nn.ParameterList([torch.tensor(w, dtype=torch.float32) for w, _ in layers])
        self.b = nn.ParameterList([torch.tensor(np.atleast_1d(b), dtype=torch.float32) for _, b in layers])
        self.act, self.last = act, last
        self.scaler = None if scaler is None else [torch.tensor(np.asarray(s), dtype=torch.float32) for s in (scaler.mean_, scaler.scale_)]

    def forward(self, x):
        if self.scaler:
            x = (x - self.scaler[0]) / self.scaler[1]
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            x = x @ w + b
            if i + 1 < len(self.w):
                x = self.act(x)
        if self.last == 'softmax':
            return torch.softmax(x, -1)
        if self.last == 'binary':
            p = torch.sigmoid(x)
            return torch.cat([1 - p, p], -1)
        if self.last == 'ovr':
            p = torch.sigmoid(x)
            return p / p.sum(-1, keepdim=True)
        return x


def cases():
    from sklearn import linear_model as lm
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import LinearSVC, LinearSVR
    r = np.random.default_rng(1)
    x = r.standard_normal((60, 5)) * [1, 2, 3, 1, .5] + [0, 1, -1, 0, 2]
    y3 = (x @ r.standard_normal((5, 3))).argmax(1)
    y2, f = (y3 > 0).astype(int), x @ r.standard_normal(5)
    f2 = x @ r.standard_normal((5, 2))
    mlp = dict(hidden_layer_sizes=(8, 6), max_iter=3, random_state=0)
    acts = {'relu': torch.relu, 'tanh': torch.tanh, 'logistic': torch.sigmoid, 'identity': lambda v: v}
    layers = lambda m: list(zip(m.coefs_, m.intercepts_))
    linear = lambda m: [(np.atleast_2d(m.coef_).T, m.intercept_)]
    rows = [('mlp_classifier', MLPClassifier(**mlp), y3, 'softmax', layers), ('mlp_binary', MLPClassifier(**mlp), y2, 'binary', layers), ('mlp_tanh', MLPClassifier(activation='tanh', **mlp), y3, 'softmax', layers), ('mlp_logistic', MLPClassifier(activation='logistic', **mlp), y3, 'softmax', layers),
            ('mlp_regressor', MLPRegressor(**mlp), f, None, layers), ('mlp_regressor2', MLPRegressor(**mlp), f2, None, layers), ('linear', lm.LinearRegression(), f, None, linear), ('linear2', lm.LinearRegression(), f2, None, linear), ('ridge', lm.Ridge(), f, None, linear), ('lasso', lm.Lasso(.01), f, None, linear), ('sgd_regressor', lm.SGDRegressor(), f, None, linear), ('linear_svr', LinearSVR(), f, None, linear),
            ('logistic', lm.LogisticRegression(), y3, 'softmax', linear), ('logistic_binary', lm.LogisticRegression(), y2, 'binary', linear), ('sgd_classifier', lm.SGDClassifier(loss='log_loss'), y3, 'ovr', linear)]
    for name, model, y, last, get in rows:
        for scaled in (False, True):
            if scaled and name not in ('mlp_classifier', 'mlp_regressor', 'logistic', 'linear'):
                continue
            whole = (make_pipeline(StandardScaler(), copy.deepcopy(model)) if scaled else copy.deepcopy(model)).fit(x, y)
            end = whole[-1] if scaled else whole
            net = lambda end=end, get=get, last=last, whole=whole, scaled=scaled: Net(get(end), acts[getattr(end, 'activation', 'relu')], last, whole[0] if scaled else None)

            def export(module, data, how, path, whole=whole, end=end, get=get, last=last):
                import skl2onnx
                new = copy.deepcopy(whole)
                e = new[-1] if hasattr(new, 'steps') else new
                w, b = [p.detach().numpy().astype('f8') for p in module.w], [p.detach().numpy().astype('f8') for p in module.b]
                if hasattr(e, 'coefs_'):
                    e.coefs_, e.intercepts_ = w, b
                else:
                    e.coef_, e.intercept_ = w[0].T.reshape(e.coef_.shape), b[0].reshape(np.shape(e.intercept_))
                options = {id(new): {'zipmap': False}} if last else None
                m = skl2onnx.to_onnx(new, data['x'].numpy()[:1], options=options)
                open(path, 'wb').write(m.SerializeToString())
                return module
            yield Case('sklearn', name + '_scaled' * scaled, net, {'x': normal(5)}, ('own',), export)
