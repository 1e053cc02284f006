"""scikit-learn, in tiny configurations."""
import copy

import numpy as np
import torch
import torch.nn as nn

from cases import Case, normal


class Net(nn.Module):
    """What a scikit-learn model computes, its coefficients as parameters; `before` is what its pipeline does first."""
    def __init__(self, layers, act, last, before=None):
        super().__init__()
        self.w = nn.ParameterList([torch.tensor(w, dtype=torch.float32) for w, _ in layers])
        self.b = nn.ParameterList([torch.tensor(np.atleast_1d(b), dtype=torch.float32) for _, b in layers])
        self.act, self.last, self.before = act, last, before

    def forward(self, x):
        if self.before:
            x = self.before(x)
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            x = x @ w + b
            if i + 1 < len(self.w):
                x = self.act(x)
        if self.last == 'softmax':
            return torch.softmax(x, -1)
        if self.last == 'binary': # one row of weights, the first class the opposite
            p = torch.sigmoid(x)
            return torch.cat([1 - p, p], -1)
        if self.last == 'two': # a row for each of two classes
            return torch.sigmoid(x)
        if self.last == 'ovr':
            p = torch.sigmoid(x)
            return p / p.sum(-1, keepdim=True)
        return x


def tensor(a):
    return torch.tensor(np.asarray(a), dtype=torch.float32)


def scaled(scaler):
    mean, scale = tensor(scaler.mean_), tensor(scaler.scale_)
    return lambda x: (x - mean) / scale


def columns(transformer):
    """Three columns with gaps, imputed and scaled; one of categories, one-hot."""
    imputer, scaler = transformer.named_transformers_['numbers']
    fill, scale = tensor(imputer.statistics_), scaled(scaler)
    kinds = tensor(transformer.named_transformers_['kinds'].categories_[0])
    return lambda x: torch.cat([scale(torch.where(torch.isnan(x[:, :3]), fill, x[:, :3])), (x[:, 3:] == kinds).float()], 1)


def table(n, r):
    x = r.standard_normal((n, 4)).astype('f4')
    x[r.random((n, 4)) < 0.2] = np.nan
    x[:, 3] = r.integers(0, 3, n)
    return torch.from_numpy(x)


def cases():
    from sklearn import linear_model as lm
    from sklearn.compose import ColumnTransformer
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import LinearSVC, LinearSVR
    r = np.random.default_rng(1)
    x = r.standard_normal((60, 5)) * [1, 2, 3, 1, .5] + [0, 1, -1, 0, 2]
    y3 = (x @ r.standard_normal((5, 3))).argmax(1)
    y2, f, f2 = (y3 > 0).astype(int), x @ r.standard_normal(5), x @ r.standard_normal((5, 2))
    mlp = dict(hidden_layer_sizes=(8, 6), max_iter=3, random_state=0)
    acts = {'relu': torch.relu, 'tanh': torch.tanh, 'logistic': torch.sigmoid, 'identity': lambda v: v}
    layers = lambda m: list(zip(m.coefs_, m.intercepts_))
    linear = lambda m: [(np.atleast_2d(m.coef_).T, m.intercept_)]
    both = lambda m: [(np.concatenate([-m.coef_, m.coef_]).T, np.concatenate([-m.intercept_, m.intercept_]))]
    columns_of = lambda: ColumnTransformer([('numbers', make_pipeline(SimpleImputer(), StandardScaler()), [0, 1, 2]), ('kinds', OneHotEncoder(handle_unknown='ignore'), [3])])
    rows = [('mlp_classifier', MLPClassifier(**mlp), y3, 'softmax', layers), ('mlp_binary', MLPClassifier(**mlp), y2, 'binary', layers), ('mlp_tanh', MLPClassifier(activation='tanh', **mlp), y3, 'softmax', layers), ('mlp_logistic', MLPClassifier(activation='logistic', **mlp), y3, 'softmax', layers),
            ('mlp_regressor', MLPRegressor(**mlp), f, None, layers), ('linear', lm.LinearRegression(), f, None, linear), ('linear2', lm.LinearRegression(), f2, None, linear), ('ridge', lm.Ridge(), f, None, linear), ('ridge2', lm.Ridge(), f2, None, linear), ('lasso', lm.Lasso(.01), f, None, linear), ('elastic', lm.ElasticNet(.01), f, None, linear), ('sgd_regressor', lm.SGDRegressor(), f, None, linear), ('linear_svr', LinearSVR(), f, None, linear), ('bayes_ridge', lm.BayesianRidge(), f, None, linear), ('huber', lm.HuberRegressor(), f, None, linear),
            ('logistic', lm.LogisticRegression(), y3, 'softmax', linear), ('logistic_binary', lm.LogisticRegression(), y2, 'two', both), ('sgd_classifier', lm.SGDClassifier(loss='log_loss', random_state=0), y3, 'ovr', linear), ('linear_svc', LinearSVC(), y3, None, linear), ('ridge_classifier', lm.RidgeClassifier(), y3, None, linear), ('lda', LinearDiscriminantAnalysis(), y3, 'softmax', linear)]
    for name, model, y, last, get in rows:
        for how in ('', '_scaled', '_columns'):
            if how == '_scaled' and name not in ('mlp_classifier', 'mlp_regressor', 'logistic', 'linear', 'sgd_regressor') or how == '_columns' and name not in ('mlp_classifier', 'logistic', 'ridge'):
                continue
            whole = copy.deepcopy(model)
            if how:
                whole = make_pipeline(StandardScaler() if how == '_scaled' else columns_of(), whole)
            whole.fit(table(60, np.random.default_rng(2)).numpy() if how == '_columns' else x, y)
            end = whole[-1] if how else whole
            for k in ('coef_', 'intercept_'):
                if hasattr(end, k):
                    setattr(end, k, np.asarray(getattr(end, k)) * (0.05 if 'sgd' in name else 0.5)) # away from where the loss is flat
            before = columns(whole[0]) if how == '_columns' else scaled(whole[0]) if how else None
            net = lambda end=end, get=get, last=last, before=before: Net(get(end), acts[getattr(end, 'activation', 'relu')], last, before)

            def export(module, data, how, path, whole=whole, last=last):
                import skl2onnx
                new = copy.deepcopy(whole)
                e = new[-1] if hasattr(new, 'steps') else new
                w, b = [p.detach().numpy().astype('f8') for p in module.w], [p.detach().numpy().astype('f8') for p in module.b]
                if last == 'two': # the exporter writes the second row with the other sign for the first
                    with torch.no_grad():
                        module.w[0][:, 0], module.b[0][0] = -module.w[0][:, 1], -module.b[0][1]
                    w, b = [w[0][:, 1:]], [b[0][1:]]
                if hasattr(e, 'coefs_'):
                    e.coefs_, e.intercepts_ = w, b
                else:
                    e.coef_, e.intercept_ = w[0].T.reshape(e.coef_.shape), b[0].reshape(np.shape(e.intercept_))
                options = {id(new): {'zipmap': False}} if hasattr(e, 'classes_') else None
                m = skl2onnx.to_onnx(new, data['x'].numpy()[:1], options=options)
                open(path, 'wb').write(m.SerializeToString())
                return module
            yield Case('sklearn', name + how, net, {'x': table if how == '_columns' else normal(5)}, ('own',), export)
