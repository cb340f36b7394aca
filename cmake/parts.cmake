include(cmake/train.cmake)
