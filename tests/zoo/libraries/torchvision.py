"""torchvision: each architecture once, small."""
import torch
import torch.nn as nn

from short import BOTH, row


class Features(nn.Module):
    """All maps of a pyramid, as one tensor."""
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return torch.cat([f.flatten(2) for f in self.body(x).values()], 2)


class Head(nn.Module):
    """A backbone with the head of a detector, without the selection of boxes."""
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x):
        y = self.head(list(self.body(x).values()))
        parts = list(y.values()) if isinstance(y, dict) else [t.flatten(2).transpose(1, 2) for maps in y for t in maps]
        return torch.cat([t.flatten(1) for t in parts], 1)


def small_torchvision():
    """Those of fixed sizes that their classes make small; the size of the picture, and another for the TorchScript exporter where it
    knows no pooling to more places than there are."""
    import torchvision.models as tv
    from torchvision.models.convnext import CNBlockConfig
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
    from torchvision.models.vgg import VGG, make_layers
    last = dict(num_classes=10)

    def vgg(plan, bn):
        m = VGG(make_layers(plan, bn), **last)
        m.classifier[0], m.classifier[3], m.classifier[6] = nn.Linear(24 * 49, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        return m

    def alexnet():
        m = tv.alexnet(**last)
        m.classifier[1], m.classifier[4], m.classifier[6] = nn.Linear(256 * 36, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        return m
    plans = {'vgg11': [8, 'M', 16, 'M', 24, 24, 'M', 24, 'M'], 'vgg13': [8, 8, 'M', 16, 16, 'M', 24, 24, 'M', 24, 24, 'M']}
    for name, plan in plans.items():
        for bn in (False, True):
            yield name + '_bn' * bn, lambda plan=plan, bn=bn: vgg(plan, bn), (64, 112)
    yield 'alexnet', alexnet, (64, 224)
    yield 'vit_b_16', lambda: tv.VisionTransformer(32, 8, 2, 4, 32, 48, **last), 32
    yield 'convnext_tiny', lambda: tv.ConvNeXt([CNBlockConfig(24, 48, 2), CNBlockConfig(48, 64, 2), CNBlockConfig(64, None, 1)], **last), 64
    yield 'maxvit_t', lambda: tv.MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.0, **last), 64
    yield 'swin_t', lambda: tv.SwinTransformer([4, 4], 24, [2, 2], [3, 6], [4, 4], stochastic_depth_prob=0.0, **last), 64
    yield 'resnet18', lambda: ResNet(BasicBlock, [2, 1, 1, 1], **last), 64
    yield 'resnet50', lambda: ResNet(Bottleneck, [2, 1, 1, 1], width_per_group=16, **last), 64
    yield 'resnext50_32x4d', lambda: ResNet(Bottleneck, [2, 1, 1, 1], groups=8, width_per_group=4, **last), 64
    yield 'wide_resnet50_2', lambda: ResNet(Bottleneck, [2, 1, 1, 1], width_per_group=32, **last), 64
    yield 'densenet121', lambda: tv.DenseNet(12, (3, 3, 2, 2), 24, **last), 64

    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2
    yield 'swin_v2_t', lambda: tv.SwinTransformer([4, 4], 24, [2, 2], [3, 6], [4, 4], stochastic_depth_prob=0.0, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2, **last), 64


def small_video():
    import torchvision.models.video as v
    from torchvision.models.video import mvit, resnet, swin_transformer
    last = dict(num_classes=10)
    convs = {'r3d_18': resnet.Conv3DSimple, 'mc3_18': resnet.Conv3DNoTemporal, 'r2plus1d_18': resnet.Conv2Plus1D}
    for name, conv in convs.items():
        stem = resnet.R2Plus1dStem if '2plus1' in name else resnet.BasicStem
        yield name, lambda name=name, conv=conv, stem=stem: resnet.VideoResNet(resnet.BasicBlock, [resnet.Conv3DSimple if name == 'mc3_18' else conv] + [conv] * 3, [2, 1, 1, 1], stem, **last), (3, 8, 32, 32)
    yield 's3d', lambda: v.s3d(weights=None, **last), (3, 16, 224, 224)
    for name, v2 in (('mvit_v1_b', False), ('mvit_v2_s', True)):
        def make(v2=v2):
            blocks = [mvit.MSBlockConfig(1, 16, 16 if v2 else 32, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 4, 4]), mvit.MSBlockConfig(2, 16 if v2 else 32, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2])]
            return mvit.MViT((32, 32), 4, blocks, residual_pool=v2, residual_with_cls_embed=False, rel_pos_embed=v2, proj_after_attn=v2, **last)
        yield name, make, (3, 4, 32, 32)
    yield 'swin3d_t', lambda: swin_transformer.SwinTransformer3d([2, 4, 4], 24, [2, 2], [3, 6], [4, 3, 3], stochastic_depth_prob=0.0, **last), (3, 8, 32, 32)


def cases():
    import torchvision.models as tv
    from torchvision.models import detection as det
    for name, make, size in small_torchvision():
        for how, n in zip(BOTH, size if isinstance(size, tuple) else (size, size)):
            yield row('torchvision', name, make, (3, n, n), (how,), trim=False)
    for name in ('efficientnet_b0 efficientnet_v2_s googlenet inception_v3 mnasnet0_5 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large regnet_x_400mf regnet_y_400mf shufflenet_v2_x0_5 '
                 'squeezenet1_0 squeezenet1_1').split():
        more = {'aux_logits': False, 'init_weights': False} if name in ('googlenet', 'inception_v3') else {}
        size = 96 if name == 'inception_v3' else 64
        yield row('torchvision', name, lambda name=name, more=more: tv.get_model(name, weights=None, num_classes=10, **more), (3, size, size), BOTH)
    for name in ('fcn_resnet50', 'deeplabv3_resnet50', 'deeplabv3_mobilenet_v3_large', 'lraspp_mobilenet_v3_large'):
        more = {} if name.startswith('lraspp') else {'aux_loss': False}
        yield row('torchvision-seg', name, lambda name=name, more=more: tv.get_model(name, weights=None, weights_backbone=None, num_classes=4, **more), (3, 64, 64), BOTH)
    for name, make, shape in small_video():
        yield row('torchvision-video', name, make, shape, BOTH, trim=name == 's3d')
    body = lambda: det.backbone_utils.mobilenet_backbone('mobilenet_v3_large', weights=None, fpn=True, trainable_layers=6)
    resnet = lambda: det.backbone_utils.resnet_fpn_backbone(backbone_name='resnet18', weights=None, trainable_layers=5)
    rows = {'mobilenet_v3_large_fpn': lambda: Features(body()), 'resnet_fpn': lambda: Features(resnet()), 'fasterrcnn_rpn': lambda: Head(body(), det.rpn.RPNHead(256, 3)),
            'retinanet_head': lambda: Head(body(), det.retinanet.RetinaNetHead(256, 3, 4)), 'fcos_head': lambda: Head(body(), det.fcos.FCOSHead(256, 3, 4))}
    for name, make in rows.items():
        yield row('torchvision-det', name, make, (3, 64, 64), BOTH)
