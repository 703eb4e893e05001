"""Plans as tensor operations, for the exchange formats: written once, printed as TensorFlow, ONNX and plain Python."""
