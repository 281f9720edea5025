"""Small instances of the real architectures, with random weights, a real tokenizer and a real processor, saved to a folder as a user would have them."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = (
    "a photo of the person man woman doctor nurse engineer who smiles old young in front hospital park red blue and with without glasses hat "
    "very long sentence about people that goes on talk to each other seen from afar"
)
CORPUS = [WORDS, *(f"a photo of a {word}" for word in WORDS.split())]
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 24,
}
SIZE = {"height": 32, "width": 32}


def save(folder: Path, *parts) -> Path:
    for part in parts:
        part.save_pretrained(folder)
    return folder


def seeded(model_class, config):
    """Weights large enough that inputs tell: at the usual 0.02 an untrained tower maps everything to nearly one point."""
    import torch

    torch.manual_seed(0)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.15)
    return model


def clip_tokenizer(tokens: int = 24):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import CLIPTokenizer

    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, end_of_word_suffix="</w>"),
    )
    pieces = sorted(trained.get_vocab())
    pieces += [f"{piece}</w>" for piece in sorted(alphabet) if f"{piece}</w>" not in pieces]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    merges = [tuple(merge) for merge in json.loads(trained.to_str())["model"]["merges"]]
    return CLIPTokenizer(
        vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges, model_max_length=tokens
    )


def bert_tokenizer(**options):
    from transformers import BertTokenizer

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS.split(),
        *"abcdefghijklmnopqrstuvwxyz",
    ]
    return BertTokenizer(
        vocab={word: i for i, word in enumerate(dict.fromkeys(words))},
        model_max_length=24,
        **options,
    )


def clip(folder: Path, size: int = 32, tokens: int = 24, **vision) -> Path:
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    tokenizer = clip_tokenizer(tokens)
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = CLIPConfig(
        text_config={
            **TEXT,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": tokens,
            **ids,
        },
        vision_config={**VISION, "image_size": size, **vision},
        projection_dim=16,
    )
    processor = CLIPImageProcessor(
        size={"shortest_edge": size}, crop_size={"height": size, "width": size}
    )
    return save(folder, seeded(CLIPModel, config), tokenizer, processor)


def siglip(folder: Path, tokens: int = 24) -> Path:
    import sentencepiece
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipTokenizer

    folder.mkdir()
    (folder / "corpus.txt").write_text("\n".join(CORPUS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "spiece"),
        vocab_size=80,
        model_type="unigram",
        hard_vocab_limit=False,
    )
    tokenizer = SiglipTokenizer(str(folder / "spiece.model"), model_max_length=tokens)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": tokens}
    config = SiglipConfig(text_config=text, vision_config=VISION)
    return save(folder, seeded(SiglipModel, config), tokenizer, SiglipImageProcessor(size=SIZE))


def siglip2(folder: Path) -> Path:
    """The flexible-resolution one: patches, masks and shapes instead of a picture."""
    from tokenizers import Tokenizer, models, normalizers, trainers
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model, Siglip2Tokenizer

    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    trained.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=150, special_tokens=specials)
    )
    model = json.loads(trained.to_str())["model"]
    tokenizer = Siglip2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        model_max_length=24,
    )
    vision = {key: value for key, value in VISION.items() if key != "image_size"} | {
        "num_patches": 16
    }
    config = Siglip2Config(text_config={**TEXT, "vocab_size": len(tokenizer)}, vision_config=vision)
    return save(
        folder,
        seeded(Siglip2Model, config),
        tokenizer,
        Siglip2ImageProcessor(patch_size=8, max_num_patches=16),
    )


def blip(folder: Path) -> Path:
    from transformers import BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor

    tokenizer = bert_tokenizer()
    text = {
        **TEXT,
        "vocab_size": len(tokenizer),
        "encoder_hidden_size": 32,
        "bos_token_id": 2,
        "sep_token_id": 3,
        "pad_token_id": 0,
    }
    config = BlipConfig(text_config=text, vision_config=VISION, image_text_hidden_size=16)
    return save(
        folder, seeded(BlipForImageTextRetrieval, config), tokenizer, BlipImageProcessor(size=SIZE)
    )


def blip2(folder: Path) -> Path:
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessor

    tokenizer = bert_tokenizer()
    qformer = {
        **TEXT,
        "vocab_size": len(tokenizer),
        "encoder_hidden_size": 32,
        "use_qformer_text_input": True,
    }
    config = Blip2Config(
        vision_config=VISION, qformer_config=qformer, num_query_tokens=4, image_text_hidden_size=16
    )
    return save(
        folder, seeded(Blip2ForImageTextRetrieval, config), tokenizer, BlipImageProcessor(size=SIZE)
    )


def blip2_vqa(folder: Path) -> Path:
    """The one that answers questions: vision, Q-Former and an OPT."""
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2Processor,
        BlipImageProcessor,
        OPTConfig,
    )

    tokenizer = bert_tokenizer()
    text = OPTConfig(
        vocab_size=len(tokenizer) + 1, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
        word_embed_proj_dim=32, bos_token_id=2, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    qformer = {**TEXT, "encoder_hidden_size": 32}
    config = Blip2Config(
        vision_config=VISION,
        qformer_config=qformer,
        text_config=text.to_dict(),
        num_query_tokens=4,
        image_token_index=len(tokenizer),
    )
    processor = Blip2Processor(BlipImageProcessor(size=SIZE), tokenizer, num_query_tokens=4)
    return save(folder, seeded(Blip2ForConditionalGeneration, config), processor)


def align(folder: Path) -> Path:
    from transformers import AlignConfig, AlignModel, EfficientNetImageProcessor

    tokenizer = bert_tokenizer()
    vision = {
        "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 32, "kernel_sizes": [3, 3], "in_channels": [32, 16],
        "out_channels": [16, 24], "depthwise_padding": [], "strides": [1, 2], "num_block_repeats": [1, 1], "expand_ratios": [1, 2],
        "num_hidden_layers": 2, "squeeze_expansion_ratio": 0.25,
    }  # fmt: skip
    config = AlignConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer), "pad_token_id": 0},
        vision_config=vision,
        projection_dim=8,
    )
    return save(
        folder,
        seeded(AlignModel, config),
        tokenizer,
        EfficientNetImageProcessor(size=SIZE, crop_size=SIZE),
    )


def chinese_clip(folder: Path) -> Path:
    from transformers import ChineseCLIPConfig, ChineseCLIPImageProcessor, ChineseCLIPModel

    tokenizer = bert_tokenizer()
    config = ChineseCLIPConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer), "pad_token_id": 0},
        vision_config=VISION,
        projection_dim=16,
    )
    processor = ChineseCLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SIZE)
    return save(folder, seeded(ChineseCLIPModel, config), tokenizer, processor)


def sentence_texts(folder: Path) -> Path:
    """Texts alone."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    tokenizer = bert_tokenizer()
    base = save(
        folder / "base", seeded(BertModel, BertConfig(vocab_size=len(tokenizer), **TEXT)), tokenizer
    )
    transformer = Transformer(str(base), max_seq_length=24)
    SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu").save(str(folder / "st"))
    return folder / "st"


def sentence_clip(folder: Path) -> Path:
    """Texts and images."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(clip(folder / "base")), device="cpu").save(str(folder / "st"))
    return folder / "st"


HF = {
    "clip": clip,
    "siglip": siglip,
    "siglip2": siglip2,
    "blip": blip,
    "blip2": blip2,
    "align": align,
    "chinese_clip": chinese_clip,
}
