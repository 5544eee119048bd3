"""What a graph tells about labels: the vote of a node's neighbours, and the propagation of a few labels."""
