"""Export: the one package that writes C, TFLite, ONNX and plain Python: a calibrator as files for other tools."""
