"""timm, in tiny configurations."""
from cases import Case, normal


def cases():
    import timm
    small = {  # model: arguments, size of the picture
        'resnet18': ({}, 64), 'resnet10t': ({}, 64), 'resnetv2_50': ({}, 64), 'resnest14d': ({}, 64), 'seresnet18': ({}, 64), 'ecaresnet26t': ({}, 64), 'res2net50_26w_4s': ({}, 64),
        'mobilenetv2_050': ({}, 64), 'mobilenetv3_small_050': ({}, 64), 'mobilenetv4_conv_small': ({}, 64), 'mobilenetv4_hybrid_medium': ({}, 64), 'efficientnet_b0': ({}, 64), 'tf_efficientnet_b0': ({}, 64),
        'tinynet_e': ({}, 64), 'ghostnet_050': ({}, 64), 'lcnet_050': ({}, 64), 'hardcorenas_a': ({}, 64), 'fbnetc_100': ({}, 64),
        'regnetx_002': ({}, 64), 'regnety_002': ({}, 64), 'nf_regnet_b0': ({}, 64), 'dm_nfnet_f0': ({}, 64), 'convnext_atto': ({}, 64), 'convnextv2_atto': ({}, 64),
        'edgenext_xx_small': ({}, 64), 'fastvit_t8': ({}, 64), 'repvgg_a0': ({}, 64), 'repghostnet_050': ({}, 64), 'mobileone_s0': ({}, 64), 'densenet121': ({}, 64), 'vovnet39a': ({}, 64), 'dla34': ({}, 64), 'dpn48b': ({}, 64),
        'hrnet_w18_small': ({}, 64), 'xception41': ({}, 96), 'inception_v4': ({}, 96), 'skresnet18': ({}, 64), 'cspresnet50': ({}, 64), 'darknet53': ({}, 64), 'gernet_s': ({}, 64), 'rexnet_100': ({}, 64), 'selecsls42b': ({}, 64), 'tresnet_m': ({}, 64),
        'vit_tiny_patch16_224': ({'img_size': 64, 'depth': 2}, 64), 'deit_tiny_patch16_224': ({'img_size': 64, 'depth': 2}, 64), 'deit_tiny_distilled_patch16_224': ({'img_size': 64, 'depth': 2}, 64),
        'test_vit': ({}, 160), 'eva02_tiny_patch14_224': ({'img_size': 56, 'depth': 2}, 56), 'beit_base_patch16_224': ({'img_size': 64, 'depth': 2, 'embed_dim': 48, 'num_heads': 4}, 64),
        'beitv2_base_patch16_224': ({'img_size': 64, 'depth': 2, 'embed_dim': 48, 'num_heads': 4}, 64), 'cait_xxs24_224': ({'img_size': 64, 'depth': 2}, 64), 'xcit_nano_12_p16_224': ({'img_size': 64, 'depth': 2}, 64),
        'crossvit_tiny_240': ({}, 240), 'coat_lite_tiny': ({'img_size': 64}, 64), 'convit_tiny': ({'img_size': 64, 'depth': 4}, 64), 'tnt_s_patch16_224': ({'img_size': 64, 'depth': 2}, 64), 'visformer_tiny': ({'img_size': 64}, 64),
        'levit_128s': ({'img_size': 64}, 64), 'pit_ti_224': ({'img_size': 64}, 64), 'pvt_v2_b0': ({}, 64), 'twins_pcpvt_small': ({'img_size': 64}, 64), 'twins_svt_small': ({'img_size': 64}, 64), 'swin_tiny_patch4_window7_224': ({'img_size': 56, 'depths': (2, 2), 'num_heads': (3, 6), 'embed_dim': 24}, 56),
        'swinv2_tiny_window8_256': ({'img_size': 64, 'depths': (2, 2), 'num_heads': (3, 6), 'embed_dim': 24}, 64), 'swinv2_cr_tiny_224': ({'img_size': 56, 'depths': (2, 2), 'num_heads': (3, 6), 'embed_dim': 24, 'window_size': 7}, 56), 'maxvit_pico_rw_256': ({'img_size': 64}, 64), 'coatnet_nano_rw_224': ({'img_size': 64}, 64),
        'mobilevit_xxs': ({}, 64), 'mobilevitv2_050': ({}, 64), 'efficientformer_l1': ({}, 224), 'efficientformerv2_s0': ({}, 224), 'efficientvit_b0': ({}, 64), 'efficientvit_m0': ({}, 224), 'poolformer_s12': ({}, 64), 'poolformerv2_s12': ({}, 64), 'caformer_s18': ({'depths': (1, 1, 2, 1)}, 64), 'convformer_s18': ({'depths': (1, 1, 2, 1)}, 64),
        'davit_tiny': ({'depths': (1, 1, 1, 1)}, 64), 'focalnet_tiny_srf': ({}, 64), 'gcvit_xxtiny': ({}, 224), 'mixer_s32_224': ({'img_size': 64, 'num_blocks': 2}, 64), 'gmixer_12_224': ({'img_size': 64, 'num_blocks': 2}, 64), 'resmlp_12_224': ({'img_size': 64, 'num_blocks': 2}, 64), 'gmlp_ti16_224': ({'img_size': 64, 'num_blocks': 2}, 64),
        'convmixer_768_32': ({'depth': 3}, 64), 'sequencer2d_s': ({'layers': (1, 1, 1, 1)}, 64), 'volo_d1_224': ({'img_size': 64}, 64), 'nest_tiny_jx': ({'img_size': 64}, 64), 'hiera_tiny_224': ({'img_size': 224}, 224), 'vit_relpos_small_patch16_224': ({'img_size': 64, 'depth': 2}, 64), 'samvit_base_patch16_224': ({'img_size': 64, 'depth': 2, 'embed_dim': 48, 'num_heads': 4, 'global_attn_indexes': (1,), 'window_size': 2}, 64),
        'tiny_vit_5m_224': ({'img_size': 64}, 224), 'repvit_m1': ({}, 64), 'starnet_s1': ({}, 64), 'inception_next_atto': ({}, 64), 'mambaout_femto': ({'depths': (1, 1, 2, 1)}, 64), 'rdnet_tiny': ({}, 64), 'halonet26t': ({}, 64), 'lambda_resnet26t': ({}, 64), 'botnet26t_256': ({'img_size': 64}, 64), 'bat_resnext26ts': ({}, 64), 'shvit_s1': ({}, 64), 'swiftformer_xs': ({}, 224), 'ghostnetv2_100': ({}, 64), 'hgnetv2_b0': ({}, 64), 'vit_pwee_patch16_reg1_gap_256': ({'img_size': 64, 'depth': 2}, 64), 'naflexvit_base_patch16_gap': ({}, 64)}
    both = ('resnet18 mobilenetv3_small_050 efficientnet_b0 convnext_atto nf_regnet_b0 vit_tiny_patch16_224 swin_tiny_patch4_window7_224 mobilevit_xxs mixer_s32_224 levit_128s edgenext_xx_small regnety_002 poolformer_s12 coatnet_nano_rw_224').split()
    for name, (arguments, size) in small.items():
        yield Case('timm', name, lambda name=name, arguments=arguments: timm.create_model(name, pretrained=False, num_classes=10, **arguments),
                   {'x': normal(3, size, size)}, ('d1', 'tt') if name in both else ('d1',))
