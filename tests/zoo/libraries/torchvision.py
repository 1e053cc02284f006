"""torchvision, in tiny configurations."""
import torch
import torch.nn as nn

from cases import Case, normal


def cases():
    import torchvision.models as tv
    both = ('resnet18 mobilenet_v2 mobilenet_v3_small densenet121 efficientnet_b0 googlenet inception_v3 mnasnet0_5 regnet_y_400mf shufflenet_v2_x0_5 '
            'squeezenet1_1 convnext_tiny swin_t swin_v2_t maxvit_t alexnet vit vgg11').split()
    large = {'inception_v3': 96, 'maxvit_t': 224, 'googlenet': 64, 'alexnet': 64, 'squeezenet1_0': 48, 'squeezenet1_1': 48}
    names = list(tv.list_models(module=tv))
    for name in names:
        if name.startswith(('vit_', 'vgg', 'alexnet')):
            continue
        more = {'aux_logits': False, 'init_weights': False} if name in ('googlenet', 'inception_v3') else {}
        size = large.get(name, 64)
        make = lambda name=name, more=more: tv.get_model(name, weights=None, num_classes=10, **more)
        yield Case('torchvision', name, make, {'x': normal(3, size, size)}, ('d1', 'tt') if name in both else ('d1',))
    from torchvision.models.vgg import VGG, make_layers
    for bn in (False, True):
        def vgg(bn=bn):
            m = VGG(make_layers([8, 'M', 16, 'M', 24, 24, 'M', 24, 'M', 24, 'M'], bn), num_classes=10)
            m.classifier[0], m.classifier[3], m.classifier[6] = nn.Linear(24 * 49, 32), nn.Linear(32, 32), nn.Linear(32, 10)
            return m
        yield Case('torchvision', 'vgg' + '_bn' * bn, vgg, {'x': normal(3, 64, 64)}, ('d1', 'tt'))
    yield Case('torchvision', 'vit', lambda: tv.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=10), {'x': normal(3, 32, 32)}, ('d1', 'tt'))

    def alexnet():
        m = tv.alexnet(num_classes=10)
        m.classifier[1], m.classifier[4], m.classifier[6] = nn.Linear(256 * 36, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        return m
    yield Case('torchvision', 'alexnet', alexnet, {'x': normal(3, 64, 64)}, ('d1', 'tt'))
    for name in tv.list_models(module=tv.segmentation):
        more = {'weights_backbone': None} if True else {}
        yield Case('torchvision-seg', name, lambda name=name, more=more: tv.get_model(name, weights=None, num_classes=4, **more), {'x': normal(3, 32, 32)}, ('d1', 'tt') if 'mobilenet' in name else ('d1',))
    for name in tv.list_models(module=tv.video):
        shape = (3, 16, 224, 224) if name.startswith('mvit') else (3, 8, 32, 32)
        if name == 's3d':
            shape = (3, 16, 64, 64)
        if name.startswith('mvit'): # the class itself, small
            from torchvision.models.video.mvit import MSBlockConfig, MViT
            def mvit(name=name):
                v2 = 'v2' in name
                blocks = [MSBlockConfig(1, 16, 32, (3, 3, 3), (1, 4, 4), (1, 1, 1)), MSBlockConfig(2, 32, 32, (3, 3, 3), (1, 2, 2), (1, 2, 2))] if not v2 else \
                         [MSBlockConfig(1, 16, 16, (3, 3, 3), (1, 4, 4), (1, 1, 1)), MSBlockConfig(2, 16, 32, (3, 3, 3), (1, 2, 2), (1, 2, 2))]
                return MViT((32, 32), 4, blocks, residual_pool=v2, residual_with_cls_embed=False, rel_pos_embed=v2, proj_after_attn=v2, num_classes=10)
            yield Case('torchvision-video', name, mvit, {'x': normal(3, 4, 32, 32)})
            continue
        yield Case('torchvision-video', name, lambda name=name: tv.get_model(name, weights=None, num_classes=10), {'x': normal(*shape)}, ('d1', 'tt') if name == 'r3d_18' else ('d1',))
