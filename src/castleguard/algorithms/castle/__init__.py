"""CASTLE (Cao, Carminati, Ferrari, Tan 2011): k-anonymous, l-diverse groups of true rows."""
