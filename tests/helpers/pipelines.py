"""Small instances of diffusers' own pipelines with random weights: Stable Diffusion 1.x, 2.x and XL shapes, saved as a user would have them."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.helpers.models import clip_tokenizer, seeded

TOKENS = 77
GUIDED = {"num_inference_steps": 2, "guidance_scale": 5.0, "output_type": "latent"}


def text_config(tokenizer, width: int, projection: int, **options):
    from transformers import CLIPTextConfig

    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=64, projection_dim=projection, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=TOKENS, **ids, **options,
    )  # fmt: skip


def _parts(width: int, **unet: Any) -> dict[str, Any]:
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

    torch.set_num_threads(1)  # of models so small, threads cost more than they give
    torch.manual_seed(0)
    blocks = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    return {
        "unet": UNet2DConditionModel(
            sample_size=8, in_channels=4, out_channels=4, cross_attention_dim=width,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **blocks, **unet,
        ),
        "vae": AutoencoderKL(
            in_channels=3, out_channels=3, latent_channels=4, sample_size=16, down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2, **blocks,
        ),
        "scheduler": DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, set_alpha_to_one=False, steps_offset=1),
    }  # fmt: skip


@cache
def _tokenizer():
    return clip_tokenizer(TOKENS)


def stable_diffusion(padding: str | None = None, **text: Any):
    """1.x by default: the last layer, padded with the end token. 2.x: padded with "!"."""
    from diffusers import StableDiffusionPipeline
    from transformers import CLIPTextModel

    tokenizer = clip_tokenizer(TOKENS) if padding else _tokenizer()
    if padding:
        tokenizer.pad_token = padding
    encoder = seeded(CLIPTextModel, text_config(tokenizer, 32, 16, **text))
    extras = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    return _quiet(
        StableDiffusionPipeline(
            text_encoder=encoder, tokenizer=tokenizer, **_parts(32, attention_head_dim=4), **extras
        )
    )


def sd1():
    return stable_diffusion()


def sd2():
    return stable_diffusion(padding="!", hidden_act="gelu")


def sdxl():
    """Two encoders of different width, a pooled embedding of a third."""
    from diffusers import StableDiffusionXLPipeline
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    second = clip_tokenizer(TOKENS)
    second.pad_token = "!"
    encoders = {
        "text_encoder": seeded(CLIPTextModel, text_config(_tokenizer(), 32, 16)),
        "text_encoder_2": seeded(
            CLIPTextModelWithProjection, text_config(second, 40, 24, hidden_act="gelu")
        ),
    }
    unet = {
        "attention_head_dim": (2, 4), "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 8,
        "transformer_layers_per_block": (1, 2), "projection_class_embeddings_input_dim": 6 * 8 + 24,
    }  # fmt: skip
    return _quiet(
        StableDiffusionXLPipeline(
            **encoders, tokenizer=_tokenizer(), tokenizer_2=second, **_parts(72, **unet)
        )
    )


def _quiet(pipe):
    pipe.set_progress_bar_config(disable=True)
    return pipe


KINDS = {"sd1": sd1, "sd2": sd2, "sdxl": sdxl}


def draw(pipe, prompts, seed: int = 0, **options):
    """Latents of a batch, each from its own noise."""
    import torch

    count = len(prompts) if isinstance(prompts, list) else 1
    count *= options.get("num_images_per_prompt", 1)
    noise = [torch.Generator("cpu").manual_seed(seed + i) for i in range(count)]
    return pipe(prompt=prompts, generator=noise, **{**GUIDED, **options}).images
