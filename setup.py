"""The optional extensions: two files of Python that are quicker compiled. The rest is pyproject's.

Without Cython, a compiler or Python's headers the package is the same, and slower where it scans
millions of records.
"""

from setuptools import Extension, setup

COMPILED = {
    "ottla.record.compiled_scan": "src/ottla/record/compiled_scan.py",
    "ottla.storage.compaction.compiled_map": "src/ottla/storage/compaction/compiled_map.py",
}


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    wanted = [
        Extension(name, [path], extra_compile_args=["-O3"]) for name, path in COMPILED.items()
    ]
    made: list[Extension] = cythonize(wanted, build_dir="build/cython", quiet=True)
    for one in made:
        one.optional = True  # Cython does not hand it on
    return made


setup(ext_modules=extensions())
