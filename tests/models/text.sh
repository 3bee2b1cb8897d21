# The IR's text of the bundled models: it is read back exactly, and gives the same programs.
sh tests/models/run --mode text && exec sh tests/models/run --mode levels
