"""Save learned policies as ONNX graphs, and load policies from files."""
