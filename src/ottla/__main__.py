"""`python -m ottla` is `ottla`."""

from ottla.cli.main import main

if __name__ == "__main__":
    main()
