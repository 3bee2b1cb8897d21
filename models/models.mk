# make demo [PICTURE=file.pgm]
demo: all
	@sh models/demo.sh $(PICTURE)

.PHONY: demo
