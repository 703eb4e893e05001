"""Export is the only room that prints C, TFLite, ONNX and plain Python: a calibrator becomes files for other tools."""
