"""The last stages: gates that check every group again, input order, encoders."""
