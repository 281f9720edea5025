"""The two towers in torch, for training and for methods that need gradients.

onnxruntime runs the same weights without torch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

DIM = 256
TOKENS = 32
VOCABULARY = 8192
WEIGHTS, SCALE = "weights.safetensors", ".scale"
WIDTHS, DEPTHS = (48, 112, 208, 336), (1, 2, 3, 2)


class Mini(nn.Module):
    """Unit rows of pictures and of texts in one space of 256 dimensions; gradients flow."""

    def __init__(self, *, batch_norm: bool = False):
        super().__init__()
        self.image = ImageTower(batch_norm=batch_norm)
        self.text = TextTower()

    def encode_image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return rows (n, 256) of bytes (n, 64, 64, 3), or of floats in [-1, 1] (n, 3, 64, 64)."""
        if pixels.dtype == torch.uint8:
            pixels = (pixels / 127.5 - 1).permute(0, 3, 1, 2)
        return F.normalize(self.image(pixels), dim=-1)

    def encode_text(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return rows (n, 256) of tokens (n, length)."""
        return F.normalize(self.text(self.text.tokens(input_ids), attention_mask), dim=-1)

    def forward(
        self, pixels: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of images and of texts."""
        return self.encode_image(pixels), self.encode_text(input_ids, attention_mask)


class ImageTower(nn.Module):
    """Four stages of residual 3 x 3 convolutions, each at half the resolution of the one before;
    mean, LayerNorm, linear.

    Training has batch norms; they are folded into the convolutions of what is shipped.
    """

    def __init__(self, *, batch_norm: bool = False, drop: float = 0.0):
        super().__init__()
        layers: list[nn.Module] = []
        rates = iter(torch.linspace(0, drop, sum(DEPTHS)).tolist())
        before = 3
        for width, depth in zip(WIDTHS, DEPTHS, strict=True):
            layers += [convolution(before, width, 2, batch_norm), nn.GELU()]
            layers += [Block(width, batch_norm, next(rates)) for _ in range(depth)]
            before = width
        self.stages = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(before)
        self.head = nn.Linear(before, DIM, bias=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features (n, 256), of any length."""
        return self.head(self.norm(self.stages(pixels).mean((2, 3))))


class Block(nn.Module):
    """Two convolutions beside the identity; in training, left out at random."""

    def __init__(self, width: int, batch_norm: bool, drop: float):
        super().__init__()
        self.first = convolution(width, width, 1, batch_norm)
        self.second = convolution(width, width, 1, batch_norm)
        self.drop = drop
        if batch_norm:
            nn.init.zeros_(self.second[1].weight)  # pyright: ignore[reportArgumentType]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        change = self.second(F.gelu(self.first(x)))
        if self.training and self.drop:
            kept = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop
            change = change * kept / (1 - self.drop)
        return F.gelu(x + change)


def convolution(before: int, after: int, stride: int, batch_norm: bool) -> nn.Sequential:
    """Return a 3 x 3 convolution, with a batch norm or a bias."""
    conv = nn.Conv2d(before, after, 3, stride, 1, bias=not batch_norm)
    return nn.Sequential(conv, nn.BatchNorm2d(after)) if batch_norm else nn.Sequential(conv)


class TextTower(nn.Module):
    """A pre-norm transformer over word pieces, mean of the tokens, linear."""

    def __init__(self, width: int = 256, depth: int = 4, heads: int = 4):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(TOKENS, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, DIM, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions, std=0.02)

    def pooled(
        self,
        embeddings: torch.Tensor,
        attention_mask: torch.Tensor,
        prefix: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the mean state (n, width) of token embeddings (n, length, width).

        prefix (room, width): before each text, without positions; it is attended to, and not part
        of the mean.
        """
        x = embeddings + self.positions[: embeddings.shape[1]]
        there = attention_mask.bool()
        weights = there.to(x.dtype).unsqueeze(-1)
        room = 0 if prefix is None else len(prefix)
        if prefix is not None:
            x = torch.cat([prefix.expand(len(x), -1, -1), x], 1)
            there = F.pad(there, (room, 0), value=True)
        for layer in self.layers:
            x = layer(x, there[:, None, None, :])
        return (self.norm(x[:, room:]) * weights).sum(1) / weights.sum(1)

    def forward(
        self,
        embeddings: torch.Tensor,
        attention_mask: torch.Tensor,
        prefix: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Features (n, 256), of any length, of token embeddings; learned ones, prefix (room,
        width), may stand in front.
        """
        return self.head(self.pooled(embeddings, attention_mask, prefix))


class Layer(nn.Module):
    """Attention and a perceptron, each after a norm and beside the identity."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm_attention(x))
            .view(n, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.norm_perceptron(x))))


def weights(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return float32 weights from what the file holds: matrices are whole numbers times a scale."""
    names = [name for name in stored if not name.endswith(SCALE)]
    return {
        name: stored[name].float() * stored.get(f"{name}{SCALE}", torch.ones(())) for name in names
    }


def load(folder: Path) -> Mini:
    """Return the shipped weights, in evaluation mode."""
    from safetensors.torch import load_file

    model = Mini()
    model.load_state_dict(weights(load_file(folder / WEIGHTS)))
    return model.eval()
