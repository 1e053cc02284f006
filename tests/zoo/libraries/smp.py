"""segmentation-models-pytorch, in tiny configurations."""
from cases import Case, normal


def cases():
    import segmentation_models_pytorch as smp
    for name, encoder in [('Unet', 'resnet18'), ('UnetPlusPlus', 'resnet18'), ('MAnet', 'resnet18'), ('Linknet', 'resnet18'), ('FPN', 'resnet18'), ('PSPNet', 'resnet18'), ('PAN', 'resnet18'), ('DeepLabV3', 'resnet18'), ('DeepLabV3Plus', 'resnet18'),
                          ('UPerNet', 'resnet18'), ('Segformer', 'resnet18'), ('DPT', 'tu-vit_tiny_patch16_224'), ('Unet', 'mobilenet_v2'), ('Unet', 'efficientnet-b0'), ('Unet', 'timm-regnetx_002'), ('Unet', 'mit_b0'), ('FPN', 'efficientnet-b0'), ('Unet', 'densenet121'), ('Unet', 'vgg11')]:
        def make(name=name, encoder=encoder):
            more = {'dynamic_img_size': True} if name == 'DPT' else {}
            return getattr(smp, name)(encoder, encoder_weights=None, classes=2, **more)
        yield Case('smp', f'{name}-{encoder}', make, {'x': normal(3, 64, 64)}, ('d1', 'tt') if encoder == 'resnet18' and name in ('Unet', 'FPN', 'PSPNet', 'DeepLabV3Plus', 'Segformer') else ('d1',))
