"""The quickest sieve that is to be had here."""

from importlib.util import find_spec

from ottla.storage.compaction.key_filter import PlainSieve, Sieve


def new_sieve(memory_bytes: int, load_factor: float) -> Sieve:
    """With numpy if it is installed, compiled if it can be; what survives is the same."""
    if find_spec("numpy") is None:
        return PlainSieve(memory_bytes, load_factor)
    from ottla.storage.compaction.vector_key_filter import CompiledSieve, VectorSieve, compiled_map

    return (VectorSieve if compiled_map is None else CompiledSieve)(memory_bytes, load_factor)
