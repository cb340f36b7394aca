! A gradient to bytes and back from Fortran: the C functions through iso_c_binding.
!     gfortran codec.f90 $(pkg-config --libs telegrad) -o codec_f && ./codec_f
program codec
    use, intrinsic :: iso_c_binding
    implicit none

    type, bind(c) :: tg_array
        integer(c_size_t) :: struct_size
        type(c_ptr) :: data
        integer(c_size_t) :: n
        integer(c_int) :: dtype, memory, device
        type(c_ptr) :: stream
    end type

    interface
        integer(c_int) function tg_codec_create(spec, codec) bind(c)
            import :: c_int, c_char, c_ptr
            character(kind=c_char), intent(in) :: spec(*)
            type(c_ptr), intent(out) :: codec
        end function
        subroutine tg_codec_destroy(codec) bind(c)
            import :: c_ptr
            type(c_ptr), value :: codec
        end subroutine
        integer(c_int) function tg_codec_encode(codec, context, x, frame, cap, length) bind(c)
            import :: c_int, c_ptr, c_size_t, tg_array
            type(c_ptr), value :: codec, context, frame
            type(tg_array), intent(in) :: x
            integer(c_size_t), value :: cap
            integer(c_size_t), intent(out) :: length
        end function
        integer(c_int) function tg_frame_decode(frame, length, x) bind(c)
            import :: c_int, c_ptr, c_size_t, tg_array
            type(c_ptr), value :: frame
            integer(c_size_t), value :: length
            type(tg_array), intent(in) :: x
        end function
    end interface

    integer, parameter :: n = 10000
    real(c_float), target :: gradient(n), decoded(n)
    character(kind=c_char), target :: frame(8 * n)
    type(c_ptr) :: handle
    integer(c_size_t) :: length
    integer :: i

    gradient = [(sin(real(i)) * exp(-0.001 * real(i)), i = 0, n - 1)]
    if (tg_codec_create("topk:density=0.01" // c_null_char, handle) /= 0) error stop 1
    if (tg_codec_encode(handle, c_null_ptr, array(gradient), c_loc(frame), &
                        int(8 * n, c_size_t), length) /= 0) error stop 2
    if (tg_frame_decode(c_loc(frame), length, array(decoded)) /= 0) error stop 3
    call tg_codec_destroy(handle)
    if (count(decoded /= 0) /= 100) error stop 4
    print '(i0, a, i0)', 4 * n, " bytes became ", length

contains

    type(tg_array) function array(x)
        real(c_float), target, intent(in) :: x(:)
        array = tg_array(c_sizeof(array), c_loc(x), size(x, kind=c_size_t), 0, 0, 0, c_null_ptr)
    end function
end program
