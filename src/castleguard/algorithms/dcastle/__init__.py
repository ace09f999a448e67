"""dCASTLE (2020): CASTLE at several sites that publish one stream."""
