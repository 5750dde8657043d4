"""Tiny, randomly initialised encoders of every family, each with its kind of tokenizer, trained on our own sentences."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraForPreTraining,
    ModernBertConfig,
    ModernBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from tests.vocab.korean import sentences

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = [*sentences(400), "The café at Naïve Street sells 3kg of rice.", "Zürich and Seoul are far apart."]


def wordpiece(directory: Path, *, special: list[str] = BERT_SPECIAL, lowercase: bool = False, **config: Any) -> int:
    """Write ``vocab.txt``. Lower-casing removes accents and splits Hangul, so that its vocabulary consists of jamo."""
    tokenizer = BertWordPieceTokenizer(lowercase=lowercase, strip_accents=lowercase)
    tokenizer.train_from_iterator(TEXT, vocab_size=700, min_frequency=1, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(directory))
    settings = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer", **config}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return int(tokenizer.get_vocab_size())


def unigram(path: Path, **options: Any) -> int:
    """Write only a SentencePiece model, like early checkpoints."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, model_type="unigram", vocab_size=400, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **options,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    return int(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size())


def albert(directory: Path) -> Any:
    pieces = unigram(
        directory / "spiece.model", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"]
    )
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "keep_accents": True}))
    return AlbertModel(AlbertConfig(vocab_size=pieces, embedding_size=8, **SIZES))


def bert(directory: Path) -> Any:
    return BertModel(BertConfig(vocab_size=wordpiece(directory), **SIZES))


def bert_uncased(directory: Path) -> Any:
    """A BERT with the prefix and head of masked language models, and no pooler."""
    return BertForMaskedLM(BertConfig(vocab_size=wordpiece(directory, lowercase=True), **SIZES))


def roberta(directory: Path) -> Any:
    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(TEXT, vocab_size=500, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(directory))
    config = RobertaConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=130, type_vocab_size=1, **SIZES)
    return RobertaModel(config)


def klue_roberta(directory: Path) -> Any:
    """RoBERTa with BERT's word pieces, with special pieces in RoBERTa's order; saved without a pooler."""
    pieces = wordpiece(directory, special=["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    config = RobertaConfig(vocab_size=pieces, max_position_embeddings=130, type_vocab_size=1, **SIZES)
    return RobertaModel(config, add_pooling_layer=False)


def xlm_roberta(directory: Path) -> Any:
    pieces = unigram(directory / "sentencepiece.bpe.model")
    # XLM-R adds <pad> before and <mask> after the pieces of its SentencePiece model.
    config = XLMRobertaConfig(vocab_size=pieces + 2, max_position_embeddings=130, type_vocab_size=1, **SIZES)
    return XLMRobertaModel(config)


def electra(directory: Path) -> Any:
    """ELECTRA's discriminator, with its prefix and head."""
    return ElectraForPreTraining(ElectraConfig(vocab_size=wordpiece(directory), embedding_size=8, **SIZES))


def distilbert(directory: Path) -> Any:
    sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    return DistilBertModel(DistilBertConfig(vocab_size=wordpiece(directory), **sizes))


def big_bird(directory: Path) -> Any:
    special = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "user_defined_symbols": ["[SEP]", "[MASK]", "[CLS]"]}
    pieces = unigram(directory / "spiece.model", **special)
    return BigBirdModel(BigBirdConfig(vocab_size=pieces, max_position_embeddings=512, block_size=8, **SIZES))


def kobert(directory: Path, *, tokenizer_class: str = "KoBertTokenizer", numbered: bool = True) -> Any:
    """BERT over SentencePiece, with a tokenizer class that no library has, and a ``vocab.txt`` of other numbers."""
    special = {"unk_id": 0, "unk_piece": "[UNK]", "pad_id": 1, "pad_piece": "[PAD]", "bos_id": -1, "eos_id": -1}
    path = directory / "tokenizer_78b3.model"
    pieces = unigram(path, **special, control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    if numbered:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        order = [*range(5), *range(pieces - 1, 4, -1)]
        (directory / "vocab.txt").write_text("".join(f"{model.id_to_piece(number)}\n" for number in order), "utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))
    return BertModel(BertConfig(vocab_size=pieces, pad_token_id=1, **SIZES))


def kobert_xlnet(directory: Path) -> Any:
    """The same under XLNet's tokenizer, which would put ``[CLS]`` last."""
    return kobert(directory, tokenizer_class="XLNetTokenizer", numbered=False)


def kf_deberta(directory: Path) -> Any:
    """DeBERTa-v2 with BERT's word pieces and tokenizer class, only relative positions and no segments, like KF-DeBERTa."""
    relative = {"relative_attention": True, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
    config = DebertaV2Config(
        **{"vocab_size": wordpiece(directory), "type_vocab_size": 0, "norm_rel_ebd": "layer_norm"},
        **{"position_biased_input": False, "max_position_embeddings": 512, **relative, **SIZES},
    )
    return DebertaV2Model(config)


def modern(directory: Path, tokenizer: Tokenizer, special: dict[str, str], *, tokenizer_class: str) -> Any:
    """ModernBERT with a ``tokenizer.json`` that puts special pieces around one text or two."""
    first, last = special["cls_token"], special["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in (first, last)],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": tokenizer_class, "model_input_names": ["input_ids", "attention_mask"], **special}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    ids = {f"{role}_token_id": tokenizer.token_to_id(special[f"{role}_token"]) for role in ("pad", "cls", "sep")}
    config = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 512, "local_attention": 32, **ids, **SIZES}
    return ModernBertModel(ModernBertConfig(bos_token_id=ids["cls_token_id"], eos_token_id=ids["sep_token_id"], **config))


def ax_encoder(directory: Path) -> Any:
    """ModernBERT with byte-level BPE, like A.X-Encoder."""
    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    special |= {"pad_token": "<pad>", "mask_token": "<mask>", "unk_token": "<unk>"}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pieces = [*dict.fromkeys(special.values())]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=pieces, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return modern(directory, tokenizer, special, tokenizer_class="PreTrainedTokenizerFast")


def mmbert(directory: Path) -> Any:
    """ModernBERT with Gemma's tokenizer, like mmBERT: BPE over whole texts, blanks as ``▁``, unknown characters as bytes."""
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>", "mask_token": "<mask>"}
    tokenizer = Tokenizer(models.BPE(unk_token=special["unk_token"], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    pieces = [*special.values(), *(f"<0x{byte:02X}>" for byte in range(256))]
    # Training on words keeps this small vocabulary from consisting of whole sentences.
    words = (piece for text in TEXT for piece in text.replace(" ", " ▁").split(" "))
    tokenizer.train_from_iterator(words, trainers.BpeTrainer(vocab_size=900, special_tokens=pieces, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False, special=True) for piece in special.values()])
    return modern(
        directory, tokenizer, {**special, "cls_token": "<bos>", "sep_token": "<eos>"}, tokenizer_class="GemmaTokenizer"
    )


FAMILIES: dict[str, Callable[[Path], Any]] = {
    "albert": albert,
    "ax-encoder": ax_encoder,
    "bert": bert,
    "bert-uncased": bert_uncased,
    "big-bird": big_bird,
    "distilbert": distilbert,
    "electra": electra,
    "kf-deberta": kf_deberta,
    "klue-roberta": klue_roberta,
    "kobert": kobert,
    "kobert-xlnet": kobert_xlnet,
    "mmbert": mmbert,
    "roberta": roberta,
    "xlm-roberta": xlm_roberta,
}


def write_family(name: str, directory: Path) -> Path:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer files of a family to a directory."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        FAMILIES[name](directory).save_pretrained(directory)
    return directory
