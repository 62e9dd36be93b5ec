"""OLPB: training of one large model on devices with little memory."""
