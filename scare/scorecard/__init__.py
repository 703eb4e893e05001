"""The score card: how a calibrator's accuracy and cost are measured and graded."""
