"""Learned policies as files, to ONNX graphs and from them."""
