"""`python -m ottla` is `ottla`."""

from ottla.cli.start import main

if __name__ == "__main__":
    main()
