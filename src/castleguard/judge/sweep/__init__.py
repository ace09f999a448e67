"""Choose parameters: publish one sample under many policies, and compare their loss and risk."""
