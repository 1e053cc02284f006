"""segmentation-models-pytorch: every decoder, and encoders of other families."""
from short import BOTH, row


def cases():
    import segmentation_models_pytorch as smp
    rows = [(name, 'resnet18') for name in ('Unet', 'UnetPlusPlus', 'MAnet', 'Linknet', 'FPN', 'PSPNet', 'PAN', 'DeepLabV3', 'DeepLabV3Plus', 'UPerNet', 'Segformer')] + [
        ('DPT', 'tu-vit_tiny_patch16_224'), ('Unet', 'mobilenet_v2'), ('Unet', 'efficientnet-b0'), ('Unet', 'timm-regnetx_002'), ('Unet', 'mit_b0'), ('FPN', 'timm-mobilenetv3_small_100'), ('Unet', 'densenet121'), ('Unet', 'tu-test_convnext')]
    for name, encoder in rows:
        more = {'dynamic_img_size': True} if name == 'DPT' else {'decoder_channels': (32, 24, 16, 16, 8)} if name in ('Unet', 'UnetPlusPlus', 'MAnet') else {}
        size = 128 if name == 'PAN' else 64
        yield row('smp', f'{name}-{encoder}', lambda name=name, encoder=encoder, more=more: getattr(smp, name)(encoder, encoder_weights=None, classes=2, **more), (3, size, size), BOTH)
