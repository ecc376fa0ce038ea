module paygrid

go 1.26.0
