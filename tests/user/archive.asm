; SPDX-License-Identifier: MIT
; The programs of ring 3 in one file, each as `struct program` of kernel/process/program.h. LIST, from
; the command line, has a line for each: program 'NAME', 'FILE'

%macro program 2
%%name:
	db %1
	times 24 - ($ - %%name) db 0
	dq %%end - %%image
%%image:
	incbin %2
%%end:
	align 8, db 0
%endmacro

%include LIST
