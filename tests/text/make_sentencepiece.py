"""Writes tests/text/fixtures/sp-*.model and sentencepiece.json: models of SentencePiece trained on tinyshakespeare, and what they make of some texts.

    python3 tests/text/make_sentencepiece.py tinyshakespeare.txt        needs sentencepiece 0.2.3

The tables of normalisation are small ones, so that the files are.
"""
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece

HERE = pathlib.Path(__file__).parent / "fixtures"
TEXT = open(sys.argv[1]).read()
RULES = [("\u3000", " "), ("\u00a0", " "), ("\t", " "), ("\n", " "), ("\ufb01", "fi"), ("\u2026", "..."), ("\u00e9", "e"), ("e\u0301", "e"), ("\uff21", "A"),
         ("\u200b", ""), ("\u00bd", "1 / 2"), ("\u0130", "i")]
ODD = ["", " ", "  ", " a", "a ", "a  b", "\u3000x", "\ufb01sh", "e\u0301 \u00e9", "\u65e5\u672c\u8a9e", "\U0001F600\U0001F44D", "\u200bzero", "a\u00a0b", "a\tb\nc",
       "<s>", "</s>", "<unk>", "<sep>", "a<sep>b", "thou art", "though", "\u2581", "\u2581\u2581a", "a\u2581b", "<0x41>", "\u0130", "1\u00bd", "x" * 100,
       "1234567890", "\U0010ffff", "\u2026\u2026", "\u200b\u200b", " \u200b ", "\uff21\uff22"]


def train(name, d, **options):
    rules = pathlib.Path(d) / "rules.tsv"
    with open(rules, "w") as f:
        for source, target in RULES:
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    if options.pop("rules"):
        options["normalization_rule_tsv"] = str(rules)
    else:
        options["normalization_rule_name"] = "identity"
    sentencepiece.SentencePieceTrainer.train(input=sys.argv[1], model_prefix=f"{d}/{name}", vocab_size=500, minloglevel=2, num_threads=1, **options)
    (HERE / f"sp-{name}.model").write_bytes(pathlib.Path(f"{d}/{name}.model").read_bytes())
    return sentencepiece.SentencePieceProcessor(model_file=f"{d}/{name}.model")


def texts():
    r = random.Random(1)
    pool = ([chr(c) for c in range(32, 127)] * 8 + [chr(c) for c in range(160, 0x250)] + [s for s, _ in RULES] * 20 + ["\u2581", "\u4e00", "\U0001F600", "thou", "<sep>"] * 20)
    lines = [l for l in TEXT.split("\n") if l]
    return ODD + r.sample(lines, 200) + ["".join(r.choice(pool) for _ in range(r.randint(1, 30))) for _ in range(400)]


with tempfile.TemporaryDirectory() as d:
    models = {
        "unigram": train("unigram", d, model_type="unigram", byte_fallback=True, user_defined_symbols=["<sep>", "thou"], rules=True),
        "suffix": train("suffix", d, model_type="unigram", treat_whitespace_as_suffix=True, rules=True),
        "bpe": train("bpe", d, model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False, split_digits=True, rules=False),
        "bpe-plain": train("bpe-plain", d, model_type="bpe", user_defined_symbols=["<sep>", "th"], rules=True),
    }
    cases = [dict(text=t, **{n: m.encode(t) for n, m in models.items()}) for t in texts()]
with open(HERE / "sentencepiece.json", "w") as f:
    json.dump(cases, f, ensure_ascii=True, separators=(",", ":"), indent=None)
