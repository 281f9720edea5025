"""crc32, from ISA-L where it is installed: zlib's numbers, many times faster."""

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
