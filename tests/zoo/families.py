"""The networks: torchvision, timm, transformers, ultralytics, segmentation-models-pytorch, scikit-learn, Keras, in tiny configurations."""
import copy
import inspect
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn


class Case:
    def __init__(self, family, name, make, inputs, exports=('d1',), export=None):
        self.family, self.name, self.make, self.inputs, self.exports, self.export = family, name, make, inputs, exports, export


def by_name(module):
    return hasattr(module, 'config') and hasattr(module.config, 'model_type')


def normal(*shape):
    return lambda n, r: torch.from_numpy(r.standard_normal((n, *shape)).astype('f4'))


def ids(length, high, low=3):
    return lambda n, r: torch.from_numpy(r.integers(low, high, (n, length)))


def mask(length):
    """Ones, and zeros behind them: another length for each sample."""
    return lambda n, r: torch.from_numpy((np.arange(length)[None] < np.array([length - i % (length // 2) for i in range(n)])[:, None]).astype('i8'))


# ---- torchvision

def torchvision_cases():
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


# ---- timm

def timm_cases():
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


# ---- transformers

def transformers_cases():
    import transformers as t
    L, V = 10, 60
    text = dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False)
    enc = {'input_ids': ids(L, V), 'attention_mask': mask(L)}
    dec = {'input_ids': ids(L, V)}
    seq = {'input_ids': ids(L, V), 'attention_mask': mask(L), 'decoder_input_ids': ids(6, V)}
    kv = dict(text, num_key_value_heads=2, head_dim=8)
    ed = dict(vocab_size=V, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40,
              pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False)
    t5 = dict(vocab_size=V, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0, use_cache=False)
    img = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, num_labels=10)
    pix = lambda s=32: {'pixel_values': normal(3, s, s)}
    wav = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
               num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, vocab_size=V, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False)
    sound = {'input_values': normal(800)}
    rows = [
        ('bert', 'BertForSequenceClassification', 'BertConfig', text, enc, 2), ('bert_mlm', 'BertForMaskedLM', 'BertConfig', text, enc, 2), ('bert_qa', 'BertForQuestionAnswering', 'BertConfig', text, enc, 1), ('bert_model', 'BertModel', 'BertConfig', text, enc, 1), ('bert_token', 'BertForTokenClassification', 'BertConfig', text, enc, 1),
        ('roberta', 'RobertaForSequenceClassification', 'RobertaConfig', text, enc, 2), ('xlm_roberta', 'XLMRobertaModel', 'XLMRobertaConfig', text, enc, 1), ('camembert', 'CamembertForMaskedLM', 'CamembertConfig', text, enc, 1),
        ('distilbert', 'DistilBertForSequenceClassification', 'DistilBertConfig', dict(vocab_size=V, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=40), enc, 2),
        ('albert', 'AlbertForSequenceClassification', 'AlbertConfig', dict(text, embedding_size=16), enc, 2), ('electra', 'ElectraForSequenceClassification', 'ElectraConfig', dict(text, embedding_size=16), enc, 2),
        ('mpnet', 'MPNetForSequenceClassification', 'MPNetConfig', text, enc, 2), ('deberta', 'DebertaModel', 'DebertaConfig', dict(text, relative_attention=True, pos_att_type=['c2p', 'p2c'], max_relative_positions=-1), enc, 1),
        ('deberta_v2', 'DebertaV2ForSequenceClassification', 'DebertaV2Config', dict(text, relative_attention=True, pos_att_type=['c2p', 'p2c'], position_buckets=8, norm_rel_ebd='layer_norm', share_att_key=True), enc, 2),
        ('modernbert', 'ModernBertForMaskedLM', 'ModernBertConfig', dict(text, local_attention=4, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2, reference_compile=False), enc, 1), ('funnel', 'FunnelModel', 'FunnelConfig', dict(vocab_size=V, d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1]), {'input_ids': ids(8, V), 'attention_mask': mask(8)}, 1),
        ('squeezebert', 'SqueezeBertModel', 'SqueezeBertConfig', dict(text, embedding_size=32), enc, 1), ('mobilebert', 'MobileBertModel', 'MobileBertConfig', dict(text, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16), enc, 1), ('convbert', 'ConvBertModel', 'ConvBertConfig', dict(text, embedding_size=32), enc, 1),
        ('fnet', 'FNetModel', 'FNetConfig', text, dec, 1), ('nystromformer', 'NystromformerModel', 'NystromformerConfig', dict(text, segment_means_seq_len=10, num_landmarks=10), enc, 1), ('rembert', 'RemBertModel', 'RemBertConfig', dict(text, input_embedding_size=16), enc, 1), ('xlnet', 'XLNetModel', 'XLNetConfig', dict(vocab_size=V, d_model=32, n_layer=2, n_head=4, d_inner=48), enc, 1), ('layoutlm', 'LayoutLMModel', 'LayoutLMConfig', text, enc, 1), ('roformer', 'RoFormerModel', 'RoFormerConfig', dict(text, embedding_size=32), enc, 1), ('ernie', 'ErnieModel', 'ErnieConfig', text, enc, 1), ('nomic', 'NomicBertModel', 'NomicBertConfig', text, enc, 1), ('eurobert', 'EuroBertModel', 'EuroBertConfig', kv, enc, 1), ('longformer', 'LongformerModel', 'LongformerConfig', dict(text, attention_window=4), enc, 1), ('perceiver', 'PerceiverForMaskedLM', 'PerceiverConfig', dict(vocab_size=V, d_model=16, d_latents=32, num_latents=6, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=4, qk_channels=16, v_channels=32, max_position_embeddings=L), {'inputs': ids(L, V)}, 1),
        ('gpt2', 'GPT2LMHeadModel', 'GPT2Config', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, use_cache=False), dec, 2), ('gpt2_mask', 'GPT2LMHeadModel', 'GPT2Config', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, use_cache=False), enc, 1),
        ('gpt_neo', 'GPTNeoForCausalLM', 'GPTNeoConfig', dict(vocab_size=V, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=48, max_position_embeddings=40, attention_types=[[['global', 'local'], 1]], window_size=4, use_cache=False), dec, 1),
        ('gpt_neox', 'GPTNeoXForCausalLM', 'GPTNeoXConfig', text, dec, 2), ('gptj', 'GPTJForCausalLM', 'GPTJConfig', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, use_cache=False), dec, 1), ('codegen', 'CodeGenForCausalLM', 'CodeGenConfig', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, use_cache=False), dec, 1),
        ('llama', 'LlamaForCausalLM', 'LlamaConfig', kv, dec, 2), ('llama_mask', 'LlamaForCausalLM', 'LlamaConfig', kv, enc, 2), ('mistral', 'MistralForCausalLM', 'MistralConfig', dict(kv, sliding_window=4), dec, 1), ('mixtral', 'MixtralForCausalLM', 'MixtralConfig', dict(kv, num_local_experts=3, num_experts_per_tok=2), dec, 1),
        ('qwen2', 'Qwen2ForCausalLM', 'Qwen2Config', kv, dec, 1), ('qwen3', 'Qwen3ForCausalLM', 'Qwen3Config', kv, dec, 1), ('qwen2_moe', 'Qwen2MoeForCausalLM', 'Qwen2MoeConfig', dict(kv, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16), dec, 1), ('phi', 'PhiForCausalLM', 'PhiConfig', text, dec, 1), ('phi3', 'Phi3ForCausalLM', 'Phi3Config', kv, dec, 2),
        ('gemma', 'GemmaForCausalLM', 'GemmaConfig', kv, dec, 1), ('gemma2', 'Gemma2ForCausalLM', 'Gemma2Config', dict(kv, sliding_window=4, query_pre_attn_scalar=8), dec, 1), ('gemma3', 'Gemma3ForCausalLM', 'Gemma3TextConfig', dict(kv, sliding_window=4, query_pre_attn_scalar=8), dec, 1), ('bloom', 'BloomForCausalLM', 'BloomConfig', dict(vocab_size=V, hidden_size=32, n_layer=2, n_head=4, use_cache=False), dec, 2), ('bloom_mask', 'BloomForCausalLM', 'BloomConfig', dict(vocab_size=V, hidden_size=32, n_layer=2, n_head=4, use_cache=False), enc, 1),
        ('opt', 'OPTForCausalLM', 'OPTConfig', dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, max_position_embeddings=40, word_embed_proj_dim=32, use_cache=False), dec, 2), ('falcon', 'FalconForCausalLM', 'FalconConfig', dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40, use_cache=False), dec, 1), ('mpt', 'MptForCausalLM', 'MptConfig', dict(vocab_size=V, d_model=32, n_layers=2, n_heads=4, max_seq_len=40, use_cache=False), dec, 1), ('stablelm', 'StableLmForCausalLM', 'StableLmConfig', kv, dec, 1), ('starcoder2', 'Starcoder2ForCausalLM', 'Starcoder2Config', kv, dec, 1), ('olmo', 'OlmoForCausalLM', 'OlmoConfig', kv, dec, 1), ('olmo2', 'Olmo2ForCausalLM', 'Olmo2Config', kv, dec, 1), ('cohere', 'CohereForCausalLM', 'CohereConfig', kv, dec, 1), ('granite', 'GraniteForCausalLM', 'GraniteConfig', kv, dec, 1), ('smollm3', 'SmolLM3ForCausalLM', 'SmolLM3Config', kv, dec, 1), ('mamba', 'MambaForCausalLM', 'MambaConfig', dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False), dec, 1), ('mamba2', 'Mamba2ForCausalLM', 'Mamba2Config', dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=4, use_cache=False), dec, 1), ('rwkv', 'RwkvForCausalLM', 'RwkvConfig', dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, context_length=40, use_cache=False), dec, 1), ('xglm', 'XGLMForCausalLM', 'XGLMConfig', dict(vocab_size=V, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, max_position_embeddings=40, use_cache=False), dec, 1), ('openai_gpt', 'OpenAIGPTLMHeadModel', 'OpenAIGPTConfig', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4), dec, 1), ('gpt_bigcode', 'GPTBigCodeForCausalLM', 'GPTBigCodeConfig', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, use_cache=False), dec, 1), ('qwen2_cls', 'Qwen2ForSequenceClassification', 'Qwen2Config', dict(kv, num_labels=3), dec, 1), ('gpt2_cls', 'GPT2ForSequenceClassification', 'GPT2Config', dict(vocab_size=V, n_positions=40, n_embd=32, n_layer=2, n_head=4, use_cache=False, pad_token_id=0), dec, 1),
        ('t5', 'T5ForConditionalGeneration', 'T5Config', t5, seq, 2), ('t5_encoder', 'T5EncoderModel', 'T5Config', t5, enc, 1), ('mt5', 'MT5ForConditionalGeneration', 'MT5Config', t5, seq, 1), ('bart', 'BartForConditionalGeneration', 'BartConfig', ed, seq, 2), ('mbart', 'MBartForConditionalGeneration', 'MBartConfig', ed, seq, 1), ('marian', 'MarianMTModel', 'MarianConfig', ed, seq, 1), ('pegasus', 'PegasusForConditionalGeneration', 'PegasusConfig', ed, seq, 1), ('blenderbot', 'BlenderbotForConditionalGeneration', 'BlenderbotConfig', ed, seq, 1), ('m2m', 'M2M100ForConditionalGeneration', 'M2M100Config', ed, seq, 1), ('whisper', 'WhisperForConditionalGeneration', 'WhisperConfig', dict(ed, num_mel_bins=8, max_source_positions=20, max_target_positions=40), {'input_features': normal(8, 40), 'decoder_input_ids': ids(6, V)}, 1), ('speech_to_text', 'Speech2TextForConditionalGeneration', 'Speech2TextConfig', dict(ed, input_feat_per_channel=8, input_channels=1, conv_channels=16, max_source_positions=40, max_target_positions=40), {'input_features': normal(40, 8), 'decoder_input_ids': ids(6, V)}, 1), ('prophetnet', 'ProphetNetModel', 'ProphetNetConfig', dict(vocab_size=V, hidden_size=32, num_encoder_layers=1, num_decoder_layers=1, num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40, use_cache=False), seq, 1),
        ('vit', 'ViTForImageClassification', 'ViTConfig', img, pix(), 2), ('deit', 'DeiTForImageClassification', 'DeiTConfig', img, pix(), 1), ('dinov2', 'Dinov2ForImageClassification', 'Dinov2Config', dict(img, mlp_ratio=2), pix(), 1), ('dinov2_reg', 'Dinov2WithRegistersModel', 'Dinov2WithRegistersConfig', dict(img, mlp_ratio=2), pix(), 1), ('dinov3', 'DINOv3ViTModel', 'DINOv3ViTConfig', img, pix(), 1), ('beit', 'BeitForImageClassification', 'BeitConfig', dict(img, use_relative_position_bias=True), pix(), 1), ('data2vec_vision', 'Data2VecVisionModel', 'Data2VecVisionConfig', img, pix(), 1), ('swin', 'SwinForImageClassification', 'SwinConfig', dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10), pix(), 2), ('swinv2', 'Swinv2ForImageClassification', 'Swinv2Config', dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10), pix(), 1), ('convnext', 'ConvNextForImageClassification', 'ConvNextConfig', dict(hidden_sizes=[16, 24], depths=[1, 1], num_stages=2, num_labels=10), pix(), 1), ('convnextv2', 'ConvNextV2ForImageClassification', 'ConvNextV2Config', dict(hidden_sizes=[16, 24], depths=[1, 1], num_stages=2, num_labels=10), pix(), 1), ('resnet', 'ResNetForImageClassification', 'ResNetConfig', dict(embedding_size=16, hidden_sizes=[16, 24], depths=[1, 1], num_labels=10), pix(), 2), ('regnet', 'RegNetForImageClassification', 'RegNetConfig', dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8, num_labels=10), pix(), 1), ('mobilenet_v2', 'MobileNetV2ForImageClassification', 'MobileNetV2Config', dict(num_labels=10, depth_multiplier=0.35), pix(), 1), ('efficientnet', 'EfficientNetForImageClassification', 'EfficientNetConfig', dict(num_labels=10, width_coefficient=.3, depth_coefficient=.3, hidden_dim=384), pix(), 1), ('levit', 'LevitForImageClassification', 'LevitConfig', dict(image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8], num_labels=10), pix(64), 2), ('poolformer', 'PoolFormerForImageClassification', 'PoolFormerConfig', dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=10), pix(), 1), ('pvt', 'PvtForImageClassification', 'PvtConfig', dict(image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], num_labels=10), pix(), 1), ('cvt', 'CvtForImageClassification', 'CvtConfig', dict(embed_dim=[16, 24, 32], num_heads=[1, 2, 4], depth=[1, 1, 1], num_labels=10), pix(), 1), ('mobilevit', 'MobileViTForImageClassification', 'MobileViTConfig', dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32], num_labels=10), pix(64), 1), ('mobilevitv2', 'MobileViTV2ForImageClassification', 'MobileViTV2Config', dict(image_size=64, width_multiplier=.25, num_labels=10), pix(64), 1), ('segformer', 'SegformerForSemanticSegmentation', 'SegformerConfig', dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, num_labels=4), pix(64), 2), ('focalnet', 'FocalNetForImageClassification', 'FocalNetConfig', dict(image_size=32, embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3], num_labels=10), pix(), 1), ('bit', 'BitForImageClassification', 'BitConfig', dict(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], num_groups=8, num_labels=10), pix(), 1), ('dpt', 'DPTForDepthEstimation', 'DPTConfig', dict(img, backbone_out_indices=[0, 0, 1, 1], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5], is_hybrid=False), pix(), 1), ('depth_anything', 'GLPNForDepthEstimation', 'GLPNConfig', dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16), pix(64), 1), ('vit_mae', 'ViTMSNModel', 'ViTMSNConfig', img, pix(), 1), ('vitdet', 'VitDetModel', 'VitDetConfig', dict(img, pretrain_image_size=32, window_size=2, window_block_indices=[0], use_relative_position_embeddings=True), pix(), 1), ('hiera', 'HieraForImageClassification', 'HieraConfig', dict(image_size=[64, 64], embed_dim=16, depths=[1, 1], num_heads=[1, 2], num_query_pool=1, num_labels=10), pix(64), 1), ('yolos', 'YolosForObjectDetection', 'YolosConfig', dict(img, image_size=[32, 32], num_detection_tokens=5), pix(), 1), ('detr', 'DetrForObjectDetection', 'DetrConfig', dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=5, use_timm_backbone=True, backbone='resnet18', use_pretrained_backbone=False), dict(pix(64), pixel_mask=lambda n, r: torch.ones(n, 64, 64, dtype=torch.long)), 1), ('conditional_detr', 'ConditionalDetrForObjectDetection', 'ConditionalDetrConfig', dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=5, use_timm_backbone=True, backbone='resnet18', use_pretrained_backbone=False), pix(64), 1), ('rt_detr', 'RTDetrForObjectDetection', 'RTDetrConfig', dict(d_model=32, encoder_hidden_dim=32, encoder_in_channels=[32, 64, 128], encoder_ffn_dim=48, encoder_attention_heads=4, decoder_ffn_dim=48, decoder_layers=1, decoder_attention_heads=4, decoder_in_channels=[32, 32, 32], num_queries=5, num_denoising=0, backbone_config='RTDetrResNetConfig'), pix(64), 1), ('table', 'TableTransformerModel', 'TableTransformerConfig', dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=5, use_timm_backbone=True, backbone='resnet18', use_pretrained_backbone=False), pix(64), 1), ('upernet', 'UperNetForSemanticSegmentation', 'UperNetConfig', dict(hidden_size=16, num_labels=4, backbone_config='ConvNextConfig', use_auxiliary_head=False), pix(64), 1),
        ('clip_text', 'CLIPTextModel', 'CLIPTextConfig', text, enc, 1), ('clip_vision', 'CLIPVisionModel', 'CLIPVisionConfig', img, pix(), 1), ('clip', 'CLIPModel', 'CLIPConfig', 'both', dict(enc, **pix()), 2), ('siglip', 'SiglipModel', 'SiglipConfig', 'both', dict(dec, **pix()), 1), ('siglip_vision', 'SiglipVisionModel', 'SiglipVisionConfig', img, pix(), 1), ('blip_text', 'BlipTextModel', 'BlipTextConfig', text, enc, 1), ('chinese_clip', 'ChineseCLIPModel', 'ChineseCLIPConfig', 'both', dict(enc, **pix()), 1), ('altclip_text', 'AltCLIPTextModel', 'AltCLIPTextConfig', dict(text, project_dim=16), enc, 1), ('vilt', 'ViltModel', 'ViltConfig', dict(img, vocab_size=V, max_position_embeddings=40), dict(enc, token_type_ids=lambda n, r: torch.zeros(n, L, dtype=torch.long), **pix()), 1), ('owlvit_vision', 'OwlViTVisionModel', 'OwlViTVisionConfig', img, pix(), 1),
        ('wav2vec2', 'Wav2Vec2ForCTC', 'Wav2Vec2Config', wav, sound, 2), ('wav2vec2_cls', 'Wav2Vec2ForSequenceClassification', 'Wav2Vec2Config', dict(wav, num_labels=4), sound, 1), ('hubert', 'HubertForCTC', 'HubertConfig', wav, sound, 1), ('wavlm', 'WavLMModel', 'WavLMConfig', wav, sound, 1), ('unispeech', 'UniSpeechModel', 'UniSpeechConfig', wav, sound, 1), ('sew', 'SEWModel', 'SEWConfig', dict(wav, squeeze_factor=1), sound, 1), ('data2vec_audio', 'Data2VecAudioModel', 'Data2VecAudioConfig', dict(wav, num_conv_pos_embeddings=2, conv_pos_kernel_size=3), sound, 1), ('wav2vec2_conformer', 'Wav2Vec2ConformerModel', 'Wav2Vec2ConformerConfig', wav, sound, 1), ('wav2vec2_bert', 'Wav2Vec2BertModel', 'Wav2Vec2BertConfig', dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, feature_projection_input_dim=8, conv_depthwise_kernel_size=5, mask_time_prob=0.0), {'input_features': normal(20, 8)}, 1), ('ast', 'ASTForAudioClassification', 'ASTConfig', dict(img, max_length=40, num_mel_bins=16, patch_size=8, frequency_stride=4, time_stride=4), {'input_values': normal(40, 16)}, 1), ('audio_clap', 'ClapTextModel', 'ClapTextConfig', text, enc, 1), ('encodec', 'MimiModel', 'MimiConfig', None, None, 0),
        ('patchtst', 'PatchTSTForRegression', 'PatchTSTConfig', dict(num_input_channels=3, context_length=24, patch_length=6, patch_stride=6, d_model=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=32, num_targets=2), {'past_values': normal(24, 3)}, 1), ('patchtst_prediction', 'PatchTSTForPrediction', 'PatchTSTConfig', dict(num_input_channels=3, context_length=24, patch_length=6, patch_stride=6, d_model=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=32, prediction_length=6, loss='mse'), {'past_values': normal(24, 3)}, 1), ('patchtsmixer', 'PatchTSMixerForPrediction', 'PatchTSMixerConfig', dict(num_input_channels=3, context_length=24, patch_length=6, patch_stride=6, d_model=16, num_layers=2, prediction_length=6, loss='mse'), {'past_values': normal(24, 3)}, 1), ('decision', 'DecisionTransformerModel', 'DecisionTransformerConfig', dict(state_dim=4, act_dim=2, hidden_size=32, n_layer=2, n_head=4, max_ep_len=40), {'states': normal(5, 4), 'actions': normal(5, 2), 'rewards': normal(5, 1), 'returns_to_go': normal(5, 1), 'timesteps': ids(5, 20)}, 1), ('timesformer', 'TimesformerForVideoClassification', 'TimesformerConfig', dict(img, num_frames=2), {'pixel_values': normal(2, 3, 32, 32)}, 1), ('videomae', 'VideoMAEForVideoClassification', 'VideoMAEConfig', dict(img, num_frames=4, tubelet_size=2), {'pixel_values': normal(4, 3, 32, 32)}, 1), ('vivit', 'VivitForVideoClassification', 'VivitConfig', dict(img, num_frames=4, tubelet_size=[2, 8, 8]), {'pixel_values': normal(4, 3, 32, 32)}, 1),
    ]
    for name, model, config, options, inputs, both in rows:
        if not inputs or not hasattr(t, model):
            continue

        def make(model=model, config=config, options=options):
            if options == 'both':
                c = getattr(t, config)(text_config=dict(text, projection_dim=16), vision_config=dict(img, projection_dim=16), projection_dim=16)
            else:
                o = dict(options)
                if o.get('backbone_config') == 'RTDetrResNetConfig':
                    o['backbone_config'] = t.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], layer_type='basic', out_features=['stage2', 'stage3', 'stage4'])
                if o.get('backbone_config') == 'ConvNextConfig':
                    o['backbone_config'] = t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=['stage1', 'stage2', 'stage3', 'stage4'])
                c = getattr(t, config)(**o)
            return getattr(t, model)(c)
        yield Case('transformers', name, make, inputs, ('d1', 'tt') if both == 2 else ('d1',))


# ---- ultralytics

def ultralytics_cases():
    from ultralytics import YOLO, settings
    rows = ['yolov3-tiny', 'yolov5n', 'yolov6n', 'yolov8n', 'yolov8n-seg', 'yolov8n-pose', 'yolov8n-cls', 'yolov8n-obb', 'yolov9t', 'yolov10n', 'yolo11n', 'yolo11n-seg', 'yolo11n-pose', 'yolo11n-cls', 'yolo12n', 'yolo26n', 'yolo26n-seg', 'yolo26n-pose', 'yolov5n-p6', 'yolov8n-p2']
    for name in rows:
        for dynamic in (False, True):
            if dynamic and name not in ('yolov8n', 'yolov8n-seg', 'yolov8n-pose', 'yolo11n', 'yolov8n-cls', 'yolo26n', 'yolov5n'):
                continue

            def export(module, data, how, path, name=name, dynamic=dynamic):
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
            yield Case('ultralytics', name + '-dynamic' * dynamic, lambda name=name: YOLO(name + '.yaml').model.float(), {'images': lambda n, r: torch.from_numpy(r.random((n, 3, 64, 64)).astype('f4'))}, ('own',), export)


# ---- segmentation-models-pytorch

def smp_cases():
    import segmentation_models_pytorch as smp
    for name, encoder in [('Unet', 'resnet18'), ('UnetPlusPlus', 'resnet18'), ('MAnet', 'resnet18'), ('Linknet', 'resnet18'), ('FPN', 'resnet18'), ('PSPNet', 'resnet18'), ('PAN', 'resnet18'), ('DeepLabV3', 'resnet18'), ('DeepLabV3Plus', 'resnet18'),
                          ('UPerNet', 'resnet18'), ('Segformer', 'resnet18'), ('DPT', 'tu-vit_tiny_patch16_224'), ('Unet', 'mobilenet_v2'), ('Unet', 'efficientnet-b0'), ('Unet', 'timm-regnetx_002'), ('Unet', 'mit_b0'), ('FPN', 'efficientnet-b0'), ('Unet', 'densenet121'), ('Unet', 'vgg11')]:
        def make(name=name, encoder=encoder):
            more = {'dynamic_img_size': True} if name == 'DPT' else {}
            return getattr(smp, name)(encoder, encoder_weights=None, classes=2, **more)
        yield Case('smp', f'{name}-{encoder}', make, {'x': normal(3, 64, 64)}, ('d1', 'tt') if encoder == 'resnet18' and name in ('Unet', 'FPN', 'PSPNet', 'DeepLabV3Plus', 'Segformer') else ('d1',))


# ---- scikit-learn

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


def sklearn_cases():
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


# ---- Keras

def keras_cases():
    os.environ['KERAS_BACKEND'] = 'torch'
    import keras
    from keras import layers as l
    seq = lambda *parts: keras.Sequential(list(parts))
    rows = {'dense': lambda: seq(l.Input((6,)), l.Dense(8, 'relu'), l.Dense(3)), 'conv': lambda: seq(l.Input((16, 16, 3)), l.Conv2D(8, 3, use_bias=False), l.BatchNormalization(), l.ReLU(), l.MaxPooling2D(), l.Flatten(), l.Dropout(.2), l.Dense(4)),
            'separable': lambda: seq(l.Input((16, 16, 3)), l.SeparableConv2D(8, 3, padding='same'), l.LayerNormalization(), l.GlobalAveragePooling2D(), l.Dense(4)), 'lstm': lambda: seq(l.Input((6, 4)), l.LSTM(8), l.Dense(3)), 'gru': lambda: seq(l.Input((6, 4)), l.GRU(8), l.Dense(3)),
            'conv1d': lambda: seq(l.Input((12, 4)), l.Conv1D(8, 3, activation='gelu'), l.GlobalMaxPooling1D(), l.Dense(3))}
    for name, make in rows.items():
        def build(make=make):
            m = make()
            return m

        def export(module, data, how, path):
            module(data['x'][:1])
            module.export(path, format='onnx', verbose=False)
            return module
        shape = {'dense': (6,), 'lstm': (6, 4), 'gru': (6, 4), 'conv1d': (12, 4)}.get(name, (16, 16, 3))
        yield Case('keras', name, build, {'x': normal(*shape)}, ('own',), export)


def cases(family=''):
    for name, f in (('transformers', transformers_cases), ('timm', timm_cases), ('ultralytics', ultralytics_cases), ('smp', smp_cases), ('sklearn', sklearn_cases), ('torchvision', torchvision_cases), ('keras', keras_cases)):
        if family in ('', name):
            try:
                yield from f()
            except ImportError as e:
                print(f'{name}: not installed: {e}', flush=True)
