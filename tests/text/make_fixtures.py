"""Writes tests/text/fixtures: tokenizers trained on tinyshakespeare, and what they make of some texts.

    python3 tests/text/make_fixtures.py tinyshakespeare.txt        needs tokenizers 0.23, sentencepiece 0.2.3 and protobuf

The tokenizers have the parts of those of GPT-2, RoBERTa, Llama 2, Llama 3, Qwen 2, CLIP, BERT, T5 and ALBERT with a small vocabulary.  Characters that Unicode 3.2 did not
have are left out: tokenizers and libutf8proc know different versions.
"""
import json
import pathlib
import random
import sys
import unicodedata

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent / "fixtures"
TEXT = open(sys.argv[1]).read()
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<mask>"]


def bpe(words, normalizer=None, specials=None):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = words
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if specials:
        t.post_processor = specials(t)
    return t


def characters(normalizer, words, decoder):
    """BPE of characters; those that are not in the vocabulary become bytes."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    if words:
        t.pre_tokenizer = words
    t.decoder = decoder
    t.train_from_iterator(TEXT.split("\n"), trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", *SPECIAL], show_progress=False))
    made = json.loads(t.to_str())
    vocab = made["model"]["vocab"]
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    t = Tokenizer.from_str(json.dumps(made))
    t.add_tokens(["don't", AddedToken("I'M", normalized=False, lstrip=True), AddedToken("[SEP]", single_word=True, rstrip=True)])
    return t


def with_suffix():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    regex = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", *SPECIAL], show_progress=False, end_of_word_suffix="</w>",
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def pieces(lowercase):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=300, show_progress=False,
                                                            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    return t


def unigram(normalizer, words, fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = words
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXT.split("\n"), trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", *SPECIAL], unk_token="<unk>", show_progress=False))
    made = json.loads(t.to_str())
    if fallback:
        made["model"]["vocab"] += [[f"<0x{b:02X}>", -15.0] for b in range(256)]
        made["model"]["byte_fallback"] = True
    made["model"]["vocab"] = [[p, round(s, 4)] for p, s in made["model"]["vocab"]]
    t = Tokenizer.from_str(json.dumps(made))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


def precompiled():
    """The small table of normalisation of make_sentencepiece.py."""
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString((HERE / "sp-unigram.model").read_bytes())
    return normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap)


def whole_words():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(TEXT.split("\n"), trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]", *SPECIAL], show_progress=False))
    return t


def character(r):
    k = r.random()
    if k < 0.4:
        return chr(r.randrange(32, 127))
    if k < 0.55:
        return r.choice("  \t\n\r\u00a0\u2003\u3000\u0085\u200b\u2028")
    if k < 0.7:
        return chr(r.randrange(0xa0, 0x600))
    if k < 0.8:
        return r.choice(["'s", "'S", "'ll", "'\u017f", *SPECIAL, "[SEP]", "[MASK]", "don't", "I'M", "\u0130", "\u03a3", "e\u0301", "\ufb01"])
    if k < 0.95:
        return chr(r.choice([r.randrange(0x600, 0xd800), r.randrange(0xe000, 0x20000)]))
    return r.choice("0123456789\u0660\u00bd\u2160\u4e00\u30a2\uac00\u0301\u200d\x01\x0b\x1f")


def texts():
    r = random.Random(1)
    yield from TEXT[:4000].split("\n\n")
    yield "a" * 300
    yield "ab" * 200 + "  "
    made = 0
    while made < 600:
        s = "".join(character(r) for _ in range(r.randrange(1, 30)))
        if all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in s):
            made += 1
            yield s


def main():
    roberta = lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    llama = lambda t: processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    fused = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made = {
        "gpt2": bpe(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "roberta": bpe(pre_tokenizers.ByteLevel(add_prefix_space=True), specials=roberta),
        "llama3": bpe(split(LLAMA), specials=llama),
        "qwen2": bpe(split(LLAMA.replace("{1,3}", "")), normalizers.NFC()),
        "llama2": characters(normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, fused),
        "bpe-metaspace": characters(None, pre_tokenizers.Sequence([pre_tokenizers.Metaspace("\u2581", "first"), pre_tokenizers.Digits(True)]), fused),
        "bpe-suffix": with_suffix(),
        "bert": pieces(True),
        "bert-cased": pieces(False),
    }
    sparse = {  # every third text
        "unigram": unigram(precompiled(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
        "unigram-bytes": unigram(normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), precompiled(), normalizers.Replace(Regex(" {2,}"), " ")]),
                                 pre_tokenizers.Metaspace(), fallback=True),
        "wordlevel": whole_words(),
    }
    HERE.mkdir(exist_ok=True)
    cases = [{"text": s} for s in texts() if s]
    for name, t in [*made.items(), *sparse.items()]:
        (HERE / f"{name}.json").write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        for c in cases[::3] if name in sparse else cases:
            c[name] = t.encode(c["text"]).ids
    (HERE / "cases.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


main()
