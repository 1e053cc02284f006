"""ultralytics: YOLO of every age and task, by its own exporter, static and dynamic."""
import copy
import os
import tempfile

import torch

from cases import Case


def cases():
    from ultralytics import YOLO
    rows = 'yolov8n yolo11n yolo26n yolov8n-seg yolov8n-pose yolov8n-cls yolov8n-obb yolo11n-seg yolo11n-pose yolo11n-cls yolo11n-obb yolo26n-seg yolo26n-pose yolo26n-cls yolo26n-obb yolov3-tiny yolov5n yolov6n yolov9t yolov10n yolo12n yolov8n-p2 yolov5n-p6 yolov8n-ghost'.split()

    def export(module, data, how, path, name, dynamic):
        y = YOLO(name + '.yaml')
        y.model = copy.deepcopy(module)
        y.ckpt = {}
        with tempfile.TemporaryDirectory() as d:
            y.model.pt_path = y.model.yaml_file = os.path.join(d, name + '.pt')
            made = y.export(format='onnx', imgsz=64, dynamic=dynamic, device='cpu', simplify=not dynamic)
            os.replace(made, path)
        m = copy.deepcopy(module).fuse(verbose=False)
        for k in m.modules():
            if hasattr(k, 'export') and hasattr(k, 'dynamic'):
                k.dynamic, k.export, k.format = dynamic, True, 'onnx'
                k.max_det = min(300, getattr(k, 'max_det', 300))
            if type(k).__name__ == 'Classify':
                k.export = True
            if type(k).__name__ == 'C2f' and not dynamic:
                k.forward = k.forward_split
        return m
    for name in rows:
        for dynamic in (False, True):
            yield Case('ultralytics', name + '-dynamic' * dynamic, lambda name=name: YOLO(name + '.yaml').model.float(),
                       {'images': lambda n, r: torch.from_numpy(r.random((n, 3, 64, 64)).astype('f4'))}, ('own',), lambda *a, name=name, dynamic=dynamic: export(*a, name, dynamic))
