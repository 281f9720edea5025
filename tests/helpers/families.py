"""Small instances of the pipeline classes people draw with, of the real classes with random weights and tokenizers of their own kind."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers import pipelines
from tests.helpers.models import CORPUS, clip_tokenizer, seeded
from tests.helpers.pipelines import text_config

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH = 16
ROPE = (4, 6, 6)


class Family(NamedTuple):
    """A pipeline, how it is called, and the parts that attach must find in it."""

    pipe: Any
    options: dict[str, Any]
    parts: set[str]


def tokenizer(
    begin: str | None = None, end: str | None = None, pad: str = "<pad>", side: str = "right"
):
    """A byte-level BPE tokenizer; begin and end are put around every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    specials = ["<pad>", "<bos>", "</s>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS, trainer)
    around = [token for token in (begin, "$A", end) if token]
    trained.post_processor = processors.TemplateProcessing(
        single=" ".join(around),
        special_tokens=[(each, trained.token_to_id(each)) for each in specials],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        pad_token=pad,
        bos_token="<bos>",
        eos_token=end or "</s>",
        padding_side=side,
        model_max_length=1024,
        chat_template=CHAT,
    )


@cache
def t5_tokenizer():
    return tokenizer(end="</s>")


def t5(width: int = WIDTH):
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": width, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return seeded(T5EncoderModel, T5Config(vocab_size=len(t5_tokenizer()), **sizes))


def decoder(kind: str, tokens: Any, layers: int = 2, **more: Any):
    """A language model of transformers: its class by name."""
    import transformers

    name = kind.removesuffix("ForCausalLM").removesuffix("Model")
    config = getattr(transformers, f"{name}Config")(**language(tokens, layers), **more)
    return seeded(getattr(transformers, kind), config)


def language(tokens: Any, layers: int = 2) -> dict[str, Any]:
    return {
        "vocab_size": len(tokens), "hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": layers, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": tokens.pad_token_id, "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id, "max_position_embeddings": 2048,
    }  # fmt: skip


def qwen_vl(tokens: Any):
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    text = {
        **language(tokens),
        "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [1, 1, 2]},
    }
    text.pop("head_dim")
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": WIDTH,
    }
    return seeded(
        Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLConfig(text_config=text, vision_config=vision)
    )


def clip(width: int = 32, projection: int = 16, projected: bool = True, tokens: int = 77):
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    config = text_config(clip_tokenizer(77), width, projection)
    config.max_position_embeddings = tokens
    return seeded(kind, config)


def vae(**more: Any):
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, shift_factor=0.0, **more,
    )  # fmt: skip


def flow():
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler()


def denoiser(kind: str, **sizes: Any):
    """A denoiser of diffusers by name; weights that are zero at the start would hide what they are told."""
    import diffusers
    import torch

    torch.manual_seed(0)
    model = getattr(diffusers, kind)(**sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.1)
    return model


GUIDED = {"num_inference_steps": 1, "guidance_scale": 3.0, "output_type": "latent"}
SMALL = {**GUIDED, "height": 16, "width": 16}


def stable_diffusion() -> Family:
    return Family(pipelines.sd1(), GUIDED, {"text_encoder"})


def stable_diffusion_xl() -> Family:
    return Family(pipelines.sdxl(), GUIDED, {"text_encoder", "text_encoder_2", "pooled"})


def stable_diffusion_3() -> Family:
    from diffusers import StableDiffusion3Pipeline

    pipe = StableDiffusion3Pipeline(
        transformer=denoiser(
            "SD3Transformer2DModel", sample_size=8, patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2,
            joint_attention_dim=80, caption_projection_dim=16, pooled_projection_dim=40, out_channels=4,
        ),
        scheduler=flow(), vae=vae(), text_encoder=clip(32, 16), tokenizer=clip_tokenizer(77), text_encoder_2=clip(40, 24),
        tokenizer_2=clip_tokenizer(77), text_encoder_3=t5(80), tokenizer_3=t5_tokenizer(),
    )  # fmt: skip
    parts = {"text_encoder", "text_encoder_2", "text_encoder_3", "pooled", "pooled_2"}
    return Family(pipe, SMALL, parts)


def flux() -> Family:
    from diffusers import FluxPipeline

    pipe = FluxPipeline(
        transformer=denoiser(
            "FluxTransformer2DModel", in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=WIDTH, pooled_projection_dim=32, axes_dims_rope=ROPE, guidance_embeds=True,
        ),
        scheduler=flow(), vae=vae(), text_encoder=clip(projected=False), tokenizer=clip_tokenizer(77), text_encoder_2=t5(),
        tokenizer_2=t5_tokenizer(),
    )  # fmt: skip
    options = {**SMALL, "negative_prompt": "a man", "true_cfg_scale": 2.0}
    return Family(pipe, options, {"text_encoder_2", "pooled"})


def flux_2() -> Family:
    from diffusers import AutoencoderKLFlux2, Flux2Pipeline
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    tokens = tokenizer(side="left")
    vision = {
        "model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 16, "patch_size": 8,
    }  # fmt: skip
    config = Mistral3Config(
        text_config={"model_type": "mistral", **language(tokens, 30)}, vision_config=vision
    )
    pipe = Flux2Pipeline(
        transformer=denoiser(
            "Flux2Transformer2DModel", in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=3 * WIDTH, timestep_guidance_channels=16, axes_dims_rope=(4, 4, 4, 4),
        ),
        scheduler=flow(), text_encoder=seeded(Mistral3ForConditionalGeneration, config), tokenizer=tokens,
        vae=AutoencoderKLFlux2(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 16),
            layers_per_block=1, latent_channels=4, norm_num_groups=4, sample_size=16,
        ),
    )  # fmt: skip
    return Family(pipe, SMALL, {f"text_encoder.layer-{i}" for i in range(3)})


def qwen_image() -> Family:
    from diffusers import AutoencoderKLQwenImage, QwenImagePipeline

    tokens = tokenizer()
    pipe = QwenImagePipeline(
        transformer=denoiser(
            "QwenImageTransformer2DModel", in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=WIDTH, axes_dims_rope=ROPE,
        ),
        scheduler=flow(), text_encoder=qwen_vl(tokens), tokenizer=tokens,
        vae=AutoencoderKLQwenImage(
            base_dim=8, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[False], latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
        ),
    )  # fmt: skip
    options = {**SMALL, "guidance_scale": None, "negative_prompt": "a man", "true_cfg_scale": 2.0}
    return Family(pipe, options, {"text_encoder"})


def z_image() -> Family:
    from diffusers import ZImagePipeline

    tokens = tokenizer()
    pipe = ZImagePipeline(
        transformer=denoiser(
            "ZImageTransformer2DModel", in_channels=4, dim=32, n_layers=1, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=WIDTH,
            axes_dims=list(ROPE), axes_lens=[1024, 64, 64],
        ),
        scheduler=flow(), vae=vae(), text_encoder=decoder("Qwen3Model", tokens), tokenizer=tokens,
    )  # fmt: skip
    return Family(pipe, SMALL, {"text_encoder"})


def sana() -> Family:
    from diffusers import AutoencoderDC, SanaPipeline

    tokens = tokenizer(begin="<bos>")
    blocks = {"encoder_block_types": ("ResBlock",) * 2, "decoder_block_types": ("ResBlock",) * 2}
    layers = {"encoder_layers_per_block": (1, 1), "decoder_layers_per_block": (1, 1)}
    pipe = SanaPipeline(
        transformer=denoiser(
            "SanaTransformer2DModel", in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, num_layers=1,
            num_cross_attention_heads=2, cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=WIDTH, sample_size=8, patch_size=1,
        ),
        scheduler=flow(), text_encoder=decoder("Gemma2Model", tokens), tokenizer=tokens,
        vae=AutoencoderDC(
            latent_channels=4, attention_head_dim=2, encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
            encoder_qkv_multiscales=((), ()), decoder_qkv_multiscales=((), ()), **blocks, **layers,
        ),
    )  # fmt: skip
    options = {**SMALL, "height": 32, "width": 32, "use_resolution_binning": False}
    return Family(pipe, options, {"text_encoder"})


def pixart_sigma() -> Family:
    from diffusers import DDIMScheduler, PixArtSigmaPipeline

    pipe = PixArtSigmaPipeline(
        transformer=denoiser(
            "PixArtTransformer2DModel", sample_size=8, num_layers=1, attention_head_dim=8, num_attention_heads=2, caption_channels=WIDTH,
            cross_attention_dim=16, use_additional_conditions=False,
        ),
        scheduler=DDIMScheduler(), vae=vae(), text_encoder=t5(), tokenizer=t5_tokenizer(),
    )  # fmt: skip
    options = {**SMALL, "use_resolution_binning": False, "clean_caption": False}
    return Family(pipe, options, {"text_encoder"})


def lumina_2() -> Family:
    from diffusers import Lumina2Pipeline

    tokens = tokenizer(begin="<bos>")
    pipe = Lumina2Pipeline(
        transformer=denoiser(
            "Lumina2Transformer2DModel", sample_size=4, in_channels=4, hidden_size=32, num_layers=1, num_refiner_layers=1, num_attention_heads=2,
            num_kv_heads=1, multiple_of=16, axes_dim_rope=ROPE, axes_lens=(512, 64, 64), cap_feat_dim=WIDTH,
        ),
        scheduler=flow(), vae=vae(), text_encoder=decoder("Gemma2Model", tokens), tokenizer=tokens,
    )  # fmt: skip
    # Our tokens are letters, of which the usual window holds little more than the system prompt.
    return Family(pipe, {**SMALL, "max_sequence_length": 400}, {"text_encoder"})


def hidream() -> Family:
    from diffusers import HiDreamImagePipeline

    tokens = tokenizer(begin="<bos>", pad="</s>")
    llama = decoder("LlamaForCausalLM", tokens, attn_implementation="eager")
    pipe = HiDreamImagePipeline(
        transformer=denoiser(
            "HiDreamImageTransformer2DModel", patch_size=2, in_channels=4, out_channels=4, num_layers=1, num_single_layers=1,
            attention_head_dim=16, num_attention_heads=2, caption_channels=[WIDTH, WIDTH], text_emb_dim=40, num_routed_experts=2,
            num_activated_experts=1, axes_dims_rope=ROPE, max_resolution=(32, 32), llama_layers=[0, 1], force_inference_output=True,
        ),
        scheduler=flow(), vae=vae(), text_encoder=clip(32, 16, tokens=248), tokenizer=clip_tokenizer(248), text_encoder_2=clip(40, 24, tokens=248),
        tokenizer_2=clip_tokenizer(248), text_encoder_3=t5(), tokenizer_3=t5_tokenizer(), text_encoder_4=llama, tokenizer_4=tokens,
    )  # fmt: skip
    layers = {f"text_encoder_4.layer-{i}" for i in range(2)}
    return Family(pipe, SMALL, {"text_encoder_3", "pooled", "pooled_2", *layers})


class TextProcessor:
    """Qwen2-VL's processor for texts alone; transformers' own needs torchvision, for its videos."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    def __call__(self, text: list[str], images: None, videos: None, **options: Any) -> Any:
        return self.tokenizer(text, **options)


def kandinsky_5() -> Family:
    from diffusers import Kandinsky5T2IPipeline

    tokens = tokenizer()
    pipe = Kandinsky5T2IPipeline(
        transformer=denoiser(
            "Kandinsky5Transformer3DModel", in_visual_dim=4, in_text_dim=WIDTH, in_text_dim2=32, time_dim=32, out_visual_dim=4, model_dim=32,
            ff_dim=32, num_text_blocks=1, num_visual_blocks=1, axes_dims=ROPE,
        ),
        scheduler=flow(), vae=vae(), text_encoder=qwen_vl(tokens), tokenizer=TextProcessor(tokens),
        text_encoder_2=clip(projected=False), tokenizer_2=clip_tokenizer(77),
    )  # fmt: skip
    pipe.resolutions = [(64, 64)]
    options = {**SMALL, "height": 64, "width": 64, "negative_prompt": "a man"}
    return Family(pipe, options, {"text_encoder", "pooled"})


def cogview_4() -> Family:
    from diffusers import CogView4Pipeline

    tokens = tokenizer(begin="<bos>", side="left")
    pipe = CogView4Pipeline(
        transformer=denoiser(
            "CogView4Transformer2DModel", in_channels=4, out_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2,
            text_embed_dim=WIDTH, time_embed_dim=8, condition_dim=4, rope_axes_dim=(8, 8), sample_size=8,
        ),
        scheduler=flow(), vae=vae(), text_encoder=decoder("GlmModel", tokens), tokenizer=tokens,
    )  # fmt: skip
    return Family(pipe, SMALL, {"text_encoder"})


def chroma() -> Family:
    from diffusers import ChromaPipeline

    pipe = ChromaPipeline(
        transformer=denoiser(
            "ChromaTransformer2DModel", in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=WIDTH, axes_dims_rope=ROPE, approximator_num_channels=8, approximator_hidden_dim=32, approximator_layers=1,
        ),
        scheduler=flow(), vae=vae(), text_encoder=t5(), tokenizer=t5_tokenizer(),
    )  # fmt: skip
    return Family(pipe, SMALL, {"text_encoder"})


def aura_flow() -> Family:
    from diffusers import AuraFlowPipeline
    from transformers import UMT5Config, UMT5EncoderModel

    sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    pipe = AuraFlowPipeline(
        transformer=denoiser(
            "AuraFlowTransformer2DModel", sample_size=8, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8,
            num_attention_heads=2, joint_attention_dim=WIDTH, caption_projection_dim=16, pos_embed_max_size=64,
        ),
        scheduler=flow(), vae=vae(), text_encoder=seeded(UMT5EncoderModel, UMT5Config(vocab_size=len(t5_tokenizer()), **sizes)),
        tokenizer=t5_tokenizer(),
    )  # fmt: skip
    return Family(pipe, SMALL, {"text_encoder"})


def kolors() -> Family:
    from diffusers import EulerDiscreteScheduler, KolorsPipeline, UNet2DConditionModel
    from diffusers.pipelines.kolors import ChatGLMModel, ChatGLMTokenizer
    from diffusers.pipelines.kolors.text_encoder import ChatGLMConfig

    tokens = ChatGLMTokenizer(str(_sentences()))
    config = ChatGLMConfig(
        num_layers=2, padded_vocab_size=tokens.vocab_size + 64, hidden_size=WIDTH, ffn_hidden_size=32, kv_channels=8, num_attention_heads=2,
        seq_length=512, multi_query_attention=True, multi_query_group_num=1, add_qkv_bias=True, original_rope=True,
    )  # fmt: skip
    unet = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, cross_attention_dim=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=(2, 4),
        use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8, transformer_layers_per_block=(1, 1),
        projection_class_embeddings_input_dim=6 * 8 + WIDTH, encoder_hid_dim=WIDTH, encoder_hid_dim_type="text_proj",
    )  # fmt: skip
    pipe = KolorsPipeline(
        vae=vae(),
        text_encoder=_filled(seeded(ChatGLMModel, config)),
        tokenizer=tokens,
        unet=unet,
        scheduler=EulerDiscreteScheduler(),
    )
    return Family(pipe, SMALL, {"text_encoder", "pooled"})


def _filled(model: Any):
    """A model whose vectors of weights, which ChatGLM leaves as the memory was, are ones, and biases zero."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return model


@cache
def _sentences() -> Path:
    """A model of sentencepiece, trained on the corpus."""
    import sentencepiece

    folder = Path(tempfile.mkdtemp(prefix="equipoise-tests-"))
    (folder / "corpus.txt").write_text("\n".join(CORPUS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=80,
        hard_vocab_limit=False,
        byte_fallback=False,
    )
    return folder / "tokenizer.model"


FAMILIES = {
    "Stable Diffusion 1.5": stable_diffusion,
    "Stable Diffusion XL": stable_diffusion_xl,
    "Stable Diffusion 3": stable_diffusion_3,
    "Flux": flux,
    "Flux.2": flux_2,
    "Qwen-Image": qwen_image,
    "Z-Image": z_image,
    "Sana": sana,
    "PixArt Sigma": pixart_sigma,
    "Lumina 2": lumina_2,
    "HiDream": hidream,
    "Kandinsky 5": kandinsky_5,
    "CogView 4": cogview_4,
    "Chroma": chroma,
    "AuraFlow": aura_flow,
    "Kolors": kolors,
}


@cache
def family(name: str) -> Family:
    """Return a family's small instance, built once."""
    found = FAMILIES[name]()
    found.pipe.set_progress_bar_config(disable=True)
    return found
