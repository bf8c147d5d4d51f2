"""`python -m midstream`: the command line."""

from midstream.cli import main

if __name__ == "__main__":
    main()
