"""All rows, library by library (libraries/), and what tells them apart."""
import importlib

LIBRARIES = ('transformers', 'timm', 'ultralytics', 'smp', 'sklearn', 'torchvision', 'keras')


def cases(family=''):
    for name in LIBRARIES:
        if family in ('', name):
            try:
                yield from importlib.import_module('libraries.' + name).cases()
            except ImportError as e:
                print(f'{name}: not installed: {e}', flush=True)
