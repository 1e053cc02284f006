"""Networks with fewer blocks: what is repeated is there twice at most."""
import torch
import torch.nn as nn

from cases import Case, normal

BOTH = ('d1', 'tt')


def looks(module):
    """What two blocks that differ in their weights alone have in common."""
    leaves = [repr(m) for m in module.modules() if not list(m.children()) and type(m).__name__ not in ('StochasticDepth', 'DropPath', 'Dropout', 'Identity')]
    return type(module), tuple((n, tuple(p.shape)) for n, p in module.named_parameters()), tuple(leaves)


def shorten(module, kinds):
    for parent in list(module.modules()):
        if not isinstance(parent, kinds):
            continue
        kept, before, run = [], None, 0
        for child in parent.children():
            now = looks(child) if any(True for _ in child.parameters()) else None
            run = run + 1 if now is not None and now == before else 1
            before = now
            if run <= 2:
                kept.append(child)
        if len(kept) < len(parent) and all(k.isdigit() for k in parent._modules):
            parent._modules = type(parent._modules)((str(i), k) for i, k in enumerate(kept))
    return module


def trimmed(make, *shape):
    """A module whose stages have two blocks of a kind at most, where it still computes something without the others."""
    torch.manual_seed(0)
    for kinds in ((nn.Sequential, nn.ModuleList), nn.Sequential, ()):
        module = shorten(make().eval(), kinds)
        try:
            with torch.no_grad():
                module(torch.randn(2, *shape))
            return module
        except Exception:
            if not kinds:
                raise


def row(family, name, make, shape, exports=('d1',), trim=True):
    return Case(family, name, (lambda: trimmed(make, *shape)) if trim else make, {'x': normal(*shape)}, exports)
