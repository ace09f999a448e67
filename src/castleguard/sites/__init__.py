"""Joint releases of several sites that each hold a part of the stream: dCASTLE (Mohamed, Ghanem, Nagi: IAJIT 17(1),
2020).
"""
