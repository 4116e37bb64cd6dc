# Records the program's branches, and goes back through them.
set pagination off
set confirm off
set debuginfod enabled off
set record btrace bts buffer-size 1048576
file /program
starti
record btrace bts
break finished
continue
info record
reverse-stepi
reverse-stepi
info registers rip
record function-call-history
reverse-continue
info registers rip
