"""What a read asks for, where records come from (files or the wire), and how rows are made."""
